"""The folder of a supernet's search.

SUPERNET/
  supernet.json     the request: the base, the text, the search, the training; with a checksum
  environment.json  what the bits of the result depend on: versions, threads, processor
  tokenizer.json
  searches/0/       the search of one seed: metrics.jsonl, clock.jsonl, checkpoints/, and result.json once it has ended
  runs/             searched-0, base-0, par-5-0, …: ordinary runs
  scores/           the score of each run that has ended
  figures.json      the data of the paper's figures 2, 3 and 4
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sublayer.data.tokenizer import Tokenizer
from sublayer.nas.supernet.config import SearchConfig
from sublayer.nn.config import Config
from sublayer.nn.model import Model
from sublayer.runs import Run, sealed_json
from sublayer.training.config import TrainConfig

REQUEST, ENVIRONMENT, TOKENIZER, FIGURES = "supernet.json", "environment.json", "tokenizer.json", "figures.json"
SEALED: dict[str, type[Config]] = {"model": Model.Config, "search": SearchConfig, "train": TrainConfig}
"""Parts of the request that cannot change when a search is continued; seeds and PAR coefficients may be added."""
FOUND, SCORED = ("seed", "word", "layout"), ("name", "kind", "layout", "seed", "p", "perplexity")
"""Fields that figures.json needs, of a seed's result and of a run's score."""


@dataclass(frozen=True)
class SupernetFolder:
    path: Path

    def check(self, request: Mapping[str, Any]) -> bool:
        """Whether this search was begun here; another one, or other files, are refused."""
        if self.path.is_file():
            raise ValueError(f"{self.path}: a file is there; choose another folder for the search")
        if not (self.path / REQUEST).exists():
            ours = {ENVIRONMENT, TOKENIZER}
            others = [name for name in _names(self.path) if name not in ours and not name.startswith(".")]
            if others:
                raise ValueError(f"{self.path}: the folder holds other files ({others[0]}, …); choose a new one")
            return False
        for name, kind in SEALED.items():
            before, now = kind.parse(self.request[name], f"{self.path / REQUEST}: {name}"), kind.parse(request[name])
            for leaf, (there, here) in before.diff(now).items():
                key = leaf if name == "model" else f"{name}.{leaf}"
                raise ValueError(
                    f"{self.path}: this search began with {key}={json.dumps(there)}, not {json.dumps(here)}; give the "
                    "same value to continue it, or choose another folder"
                )
        if self.request["text"] != request["text"]:
            raise ValueError(
                f"{self.path}: this search began with another text; put it back to continue, or choose another folder"
            )
        return True

    def begin(self, request: dict[str, Any], environment: dict[str, Any], tokenizer: Tokenizer) -> None:
        """Write the folder's first files, the request last; the caller holds the lock."""
        tokenizer.save(self.path / TOKENIZER)
        sealed_json.write(self.path / ENVIRONMENT, environment)
        self.write_request(request)

    def write_request(self, request: dict[str, Any]) -> None:
        sealed_json.seal(self.path / REQUEST, request)
        vars(self).pop("request", None)

    @cached_property
    def request(self) -> dict[str, Any]:
        return sealed_json.read_asked(self.path / REQUEST)

    @property
    def base(self) -> Model.Config:
        return Model.Config.parse(self.request["model"], f"{self.path / REQUEST}: model")

    @property
    def search(self) -> SearchConfig:
        return SearchConfig.parse(self.request["search"], f"{self.path / REQUEST}: search")

    @property
    def train(self) -> TrainConfig:
        return TrainConfig.parse(self.request["train"], f"{self.path / REQUEST}: train")

    @property
    def environment(self) -> dict[str, Any]:
        return sealed_json.read(self.path / ENVIRONMENT, ("threads",))

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.path / TOKENIZER)

    def seed(self, seed: int) -> Run:
        """The folder of one seed, with metrics, clock and checkpoints as in a run."""
        return Run(self.path / "searches" / str(seed))

    def result(self, seed: int) -> dict[str, Any] | None:
        """What the search of a seed found; None before it has ended."""
        return _read_if(self.seed(seed).path / "result.json", FOUND)

    def run(self, name: str) -> Path:
        return self.path / "runs" / name

    def score(self, name: str) -> dict[str, Any] | None:
        """The score of a run; None before it has ended."""
        return _read_if(self.path / "scores" / f"{name}.json", SCORED)

    def write_score(self, name: str, score: dict[str, Any]) -> None:
        sealed_json.write(self.path / "scores" / f"{name}.json", score)

    def held(self) -> AbstractContextManager[None]:
        """Only one process at a time writes to the folder."""
        return sealed_json.held(self.path, "searching there", (REQUEST, ENVIRONMENT, FIGURES))


def _read_if(path: Path, needs: tuple[str, ...]) -> dict[str, Any] | None:
    return sealed_json.read(path, needs) if path.exists() else None


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
