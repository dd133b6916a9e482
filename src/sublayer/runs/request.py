"""TrainingRequest: what run.json asks for, as a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.runs.sealed_json import short

AUTO, FINAL_TOKENS = "auto", 100_000
"""train.eval_tokens where it is not given, and the number of tokens that are then evaluated at the end."""


@dataclass(frozen=True)
class TrainingRequest:
    """The configs are plain JSON: which classes read them is known to the rooms that own those classes."""

    model: Mapping[str, Any]
    data: Mapping[str, Any]
    text: str | None
    """The hash of the prepared data."""
    train: Mapping[str, Any]
    origin: str | None = None
    """The name of the model that was asked for: a paper, a file, a run, or a candidate of a search."""
    plugins: tuple[str, ...] = ()
    """Modules outside the package whose kinds its configs have."""

    @classmethod
    def read(cls, asked: Mapping[str, Any], path: Path) -> TrainingRequest:
        """Refuse, in one line, what no run asks for. path: of the file, for the message."""
        for name in ("model", "data", "train"):
            if not isinstance(asked.get(name), Mapping):
                raise ValueError(
                    f"{path}: {name} is {short(asked.get(name))}, expected a table; it was damaged or edited, put it "
                    "back"
                )
        text = asked.get("text")
        if text is not None and not isinstance(text, str):
            raise ValueError(f"{path}: text is {short(text)}, expected a hash; it was damaged or edited, put it back")
        origin, plugins = asked.get("origin"), asked.get("plugins") or []
        if not isinstance(origin, str | None):
            raise ValueError(f"{path}: origin is {short(origin)}, expected a name; it was edited, put it back")
        if not isinstance(plugins, list) or not all(isinstance(one, str) for one in plugins):
            raise ValueError(f"{path}: plugins is {short(plugins)}, expected modules; it was edited, put it back")
        return cls(asked["model"], asked["data"], text, asked["train"], origin, tuple(plugins))

    @property
    def length(self) -> int:
        """Tokens in a row of training."""
        return self.train["length"]

    @property
    def carry(self) -> bool | None:
        """Whether state goes from batch to batch; None: if the model has a memory for it."""
        return self.train["carry"]

    @property
    def eval_tokens(self) -> int | None:
        """Tokens of valid that are scored at the end of a training; None: all."""
        return FINAL_TOKENS if self.train["eval_tokens"] == AUTO else self.train["eval_tokens"]

    @property
    def objective(self) -> Any:
        """The objective that was named; None: what the model learns from the data."""
        return self.train.get("objective")
