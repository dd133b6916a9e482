"""A run as a report reads it: the request, and measurements over tokens and over time. No model is built."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.runs import Run
from sublayer.runs.metrics import comparable

Line = dict[str, float]


@dataclass(frozen=True)
class History:
    name: str
    run: Run
    asked: dict[str, Any]
    environment: dict[str, Any]
    train: list[Line]
    """step, tokens, loss; seconds where the clock was read."""
    valid: list[Line]
    """step, tokens, valid_loss, …"""

    @classmethod
    def read(cls, path: Path, root: Path) -> History:
        """ValueError in one line if its files are damaged."""
        run = Run.open(path)
        seconds = {line["step"]: line["seconds"] for line in _numbers(run.clock) if {"step", "seconds"} <= line.keys()}
        lines = [line for line in _numbers(run.metrics) if {"step", "tokens"} <= line.keys()]
        lines = [line | ({"seconds": seconds[line["step"]]} if line["step"] in seconds else {}) for line in lines]
        name = path.relative_to(root).as_posix() if path != root else path.name
        train = [line for line in lines if "loss" in line]
        valid = [line for line in lines if "valid_loss" in line]
        return cls(name, run, run.asked, _environment(run), train, valid)

    @property
    def model(self) -> dict[str, Any]:
        return self.asked["model"] if isinstance(self.asked["model"], dict) else {}

    @property
    def layout(self) -> str:
        stacks = (one for one in self.model.values() if isinstance(one, dict) and isinstance(one.get("layout"), str))
        return " → ".join(one["layout"] for one in stacks)

    @property
    def params(self) -> int | None:
        """None if its model has parts that are not installed here."""
        try:
            return self.run.model_config.cost().params
        except (ValueError, NotImplementedError):
            return None

    @property
    def best(self) -> Line:
        return dict(min(comparable(self.valid), key=lambda line: line["valid_loss"], default={}))

    @property
    def last(self) -> Line:
        return max([*self.train, *self.valid], key=lambda line: line["step"], default={})

    @property
    def seconds(self) -> float | None:
        return max((line["seconds"] for line in [*self.train, *self.valid] if "seconds" in line), default=None)

    def sample(self, tokens: int) -> str:
        """What the model writes on its own; the same for the same weights."""
        from sublayer.trained import Trained

        return Trained.load(self.run.path).generate(tokens=tokens, seed=0)


def read_all(paths: list[Path], root: Path) -> tuple[list[History], list[str]]:
    """Those that can be read, and why the others cannot."""
    read, problems = [], []
    for path in paths:
        try:
            read.append(History.read(path, root))
        except ValueError as error:
            problems.append(str(error))
    return read, problems


def _numbers(lines: Any) -> list[Line]:
    """The numbers of each line."""
    return [{name: value for name, value in line.items() if _is_number(value)} for line in lines]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _environment(run: Run) -> dict[str, Any]:
    try:
        return run.environment
    except ValueError:
        return {}
