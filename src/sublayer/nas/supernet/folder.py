"""The folder of a search: what was asked, one folder for each seed, the runs of what was found.

SUPERNET/
  supernet.json     what was asked: the base, the text, the search, the training; with a checksum
  environment.json  what the bits of the result depend on
  tokenizer.json
  searches/0/       of one seed: metrics.jsonl, clock.jsonl, checkpoints/, and result.json once it has ended
  runs/             searched-0, base-0, par-5-0, …: ordinary runs
  scores/           of each run that has ended
  figures.json      what the paper's figures 2, 3 and 4 show
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
from sublayer.nn.model.single import SingleStack
from sublayer.runs import Run, sealed_json
from sublayer.training.config import TrainConfig

ASKED, ENVIRONMENT, TOKENIZER, FIGURES = "supernet.json", "environment.json", "tokenizer.json", "figures.json"
SEALED: dict[str, type[Config]] = {"model": Model.Config, "search": SearchConfig, "train": TrainConfig}
"""What stays as it was when a folder is gone on with; seeds and PAR coefficients may be added."""
FOUND, SCORED = ("seed", "word", "layout"), ("name", "kind", "layout", "seed", "p", "perplexity")
"""What the figures are made of: of a seed's result, of a run's score."""


@dataclass(frozen=True)
class Folder:
    path: Path

    def check(self, asked: Mapping[str, Any]) -> bool:
        """Whether this search is there already; one line if another is, or something else."""
        if self.path.is_file():
            raise ValueError(f"{self.path}: a file is there; choose another folder for the search")
        if not (self.path / ASKED).exists():
            ours = {ENVIRONMENT, TOKENIZER}
            others = [name for name in _names(self.path) if name not in ours and not name.startswith(".")]
            if others:
                raise ValueError(f"{self.path}: the folder holds other files ({others[0]}, …); choose a new one")
            return False
        for name, kind in SEALED.items():
            before, now = kind.parse(self.asked[name], f"{self.path / ASKED}: {name}"), kind.parse(asked[name])
            for leaf, (there, here) in before.diff(now).items():
                key = leaf if name == "model" else f"{name}.{leaf}"
                raise ValueError(
                    f"{self.path}: this search began with {key}={json.dumps(there)}, not {json.dumps(here)}; ask for "
                    "the same to go on with it, or choose another folder"
                )
        if self.asked["text"] != asked["text"]:
            raise ValueError(
                f"{self.path}: this search began with another text; put it back to go on, or choose another folder"
            )
        return True

    def begin(self, asked: dict[str, Any], environment: dict[str, Any], tokenizer: Tokenizer) -> None:
        """The file that makes it a search is written last; for whoever holds the folder."""
        tokenizer.save(self.path / TOKENIZER)
        sealed_json.write(self.path / ENVIRONMENT, environment)
        self.ask(asked)

    def ask(self, asked: dict[str, Any]) -> None:
        sealed_json.seal(self.path / ASKED, asked)
        vars(self).pop("asked", None)

    @cached_property
    def asked(self) -> dict[str, Any]:
        return sealed_json.read_asked(self.path / ASKED)

    @property
    def base(self) -> SingleStack.Config:
        config = Model.Config.parse(self.asked["model"], f"{self.path / ASKED}: model")
        assert isinstance(config, SingleStack.Config)
        return config

    @property
    def search(self) -> SearchConfig:
        return SearchConfig.parse(self.asked["search"], f"{self.path / ASKED}: search")

    @property
    def train(self) -> TrainConfig:
        return TrainConfig.parse(self.asked["train"], f"{self.path / ASKED}: train")

    @property
    def environment(self) -> dict[str, Any]:
        return sealed_json.read(self.path / ENVIRONMENT, ("threads",))

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.path / TOKENIZER)

    def seed(self, seed: int) -> Run:
        """One seed's own folder: metrics, clock and checkpoints lie as in a run."""
        return Run(self.path / "searches" / str(seed))

    def result(self, seed: int) -> dict[str, Any] | None:
        """What a seed found, once it has ended."""
        return _read_if(self.seed(seed).path / "result.json", FOUND)

    def run(self, name: str) -> Path:
        return self.path / "runs" / name

    def score(self, name: str) -> dict[str, Any] | None:
        """Of a run that has ended."""
        return _read_if(self.path / "scores" / f"{name}.json", SCORED)

    def keep_score(self, name: str, score: dict[str, Any]) -> None:
        sealed_json.write(self.path / "scores" / f"{name}.json", score)

    def held(self) -> AbstractContextManager[None]:
        """One process at a time writes to it."""
        return sealed_json.held(self.path, "searching there", (ASKED, ENVIRONMENT, FIGURES))


def _read_if(path: Path, needs: tuple[str, ...]) -> dict[str, Any] | None:
    return sealed_json.read(path, needs) if path.exists() else None


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
