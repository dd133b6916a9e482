"""Run: a folder, opened. It knows where files are, and leaves to the trainer what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from sublayer.data import Data, Tokenizer
from sublayer.nn.model import Model
from sublayer.plugins import hinting
from sublayer.runs import checkpoint, sealed_json
from sublayer.runs.checkpoint import Checkpoint, DamagedError
from sublayer.runs.lines import Lines
from sublayer.runs.metrics import is_number
from sublayer.runs.request import TrainingRequest
from sublayer.runs.wording import command

SEALED = ("model", "text", "train")
"""What the checksum covers. The data may move to another path: the text is known by its hash."""
NOTED = ("origin", "plugins")
"""What a run notes beside its request, where it is known: older runs have neither."""
ASKED, ENVIRONMENT, TOKENIZER, CHECKPOINTS = "run.json", "environment.json", "tokenizer.json", "checkpoints"


@dataclass(frozen=True)
class Run:
    path: Path

    @classmethod
    def create(cls, path: Path | str, asked: dict[str, Any], environment: dict[str, Any], tokenizer: Tokenizer) -> Run:
        """asked: model, data, text and train as plain JSON, and what is NOTED.

        run.json, which makes the folder a run, is written last.
        """
        run = cls(Path(path))
        run.refuse_taken()
        with run.held():
            run.refuse_taken()  # another process may have taken it meanwhile
            tokenizer.save(run.path / TOKENIZER)
            sealed_json.write(run.path / ENVIRONMENT, environment)
            run.ask(asked)
        return run

    @classmethod
    def open(cls, path: Path | str) -> Run:
        run = cls(Path(path))
        if not run.path.exists():
            raise ValueError(f"{path}: there is no such folder, expected a run; sublayer runs lists those there are")
        if not (run.path / ASKED).is_file():
            raise ValueError(
                f"{path}: not a run, it has no {ASKED}; give the folder that sublayer train --out made "
                "(sublayer runs lists them)"
            )
        _ = run.asked
        return run

    def refuse_taken(self) -> None:
        """A run is never written over."""
        if self.path.is_file():
            raise ValueError(f"{self.path}: a file is there; choose another folder for the run")
        if (self.path / ASKED).exists():
            raise ValueError(
                f"{self.path}: there is a run already; go on with {command('resume', self.path)}, or choose another "
                "folder"
            )
        ours = {ENVIRONMENT, TOKENIZER}
        # A run killed at its beginning leaves files of ours; any other file belongs to somebody.
        others = [file.name for file in _listed(self.path) if file.name not in ours and not file.name.startswith(".")]
        if others:
            raise ValueError(f"{self.path}: the folder holds other files ({others[0]}, …); choose an empty or new one")

    def ask(self, asked: dict[str, Any]) -> None:
        """Write the request. The caller holds the run's lock."""
        sealed_json.write(self.path / ASKED, {"format": sealed_json.FORMAT, **asked, "sha256": _digest(asked)})

    @cached_property
    def asked(self) -> dict[str, Any]:
        """Model, data, text and train, as plain JSON."""
        asked = sealed_json.read(self.path / ASKED)
        if asked.get("format") != sealed_json.FORMAT:
            raise ValueError(
                f"{self.path / ASKED}: not what a run of format {sealed_json.FORMAT} holds; it was damaged or edited"
            )
        if asked.get("sha256") != _digest(asked):
            raise ValueError(
                f"{self.path / ASKED}: its checksum does not match, so it was damaged or edited; put it back. "
                f"What can change does so by {command('resume', self.path)} train.steps=…; by hand, only data can"
            )
        found = {name: asked.get(name) for name in (*SEALED, "data")}
        found |= {name: asked[name] for name in NOTED if name in asked}
        TrainingRequest.read(found, self.path / ASKED)  # refuses wrong types
        return found

    @property
    def request(self) -> TrainingRequest:
        """The same as a record."""
        return TrainingRequest.read(self.asked, self.path / ASKED)

    @cached_property
    def model_config(self) -> Model.Config:
        with hinting(self.request.plugins):
            return Model.Config.parse(self.asked["model"], f"{self.path / ASKED}: model")

    @cached_property
    def data_config(self) -> Data.Config:
        with hinting(self.request.plugins):
            return Data.Config.parse(self.asked["data"], f"{self.path / ASKED}: data")

    @cached_property
    def tokenizer(self) -> Tokenizer:
        with hinting(self.request.plugins):
            return Tokenizer.load(self.path / TOKENIZER)

    @property
    def environment(self) -> dict[str, Any]:
        return sealed_json.read(self.path / ENVIRONMENT)

    @property
    def metrics(self) -> Lines:
        return Lines(self.path / "metrics.jsonl")

    @property
    def clock(self) -> Lines:
        return Lines(self.path / "clock.jsonl")

    def add_time(self, step: int, seconds: float) -> None:
        """A line of the clock: seconds of training after a step, and the time of day. Metrics have no times in them, so
        that a run which is resumed has the same ones."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.clock.add({"step": step, "seconds": round(seconds, 3), "time": now})

    @property
    def seconds(self) -> float:
        """Training time so far, by its clock."""
        lines = list(self.clock)
        if lines and not is_number(lines[-1].get("seconds")):
            raise ValueError(f"{self.clock.path}: no seconds in its last line; it was damaged or edited, put it back")
        return lines[-1]["seconds"] if lines else 0.0

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """From the first to the last."""
        folders = (path for path in _listed(self.path / CHECKPOINTS) if path.name.isascii() and path.name.isdigit())
        return sorted((Checkpoint(path) for path in folders), key=lambda one: one.step)

    def checkpoint(self, step: int | None = None) -> Checkpoint | None:
        """The one after `step` steps, or the last, checked against its checksums. None if there is none yet."""
        there = self.checkpoints
        if step is not None and step not in [one.step for one in there]:
            steps = ", ".join(str(one.step) for one in there) or "none"
            raise ValueError(f"{self.path}: no checkpoint at step {step}; there are {steps}")
        chosen = next((one for one in reversed(there) if step in (None, one.step)), None)
        if chosen is None:
            return None
        try:
            chosen.verify()
        except DamagedError as error:
            raise ValueError(f"{error}. {self._before(chosen)}") from None
        return chosen

    def save(self, step: int, notes: dict[str, Any], **tensors: dict[str, Any]) -> Checkpoint:
        return Checkpoint.write(self.path / CHECKPOINTS, step, notes, **tensors)

    @contextmanager
    def held(self) -> Iterator[None]:
        """One process at a time writes to a run."""
        with sealed_json.held(self.path, "training this run"):
            checkpoint.sweep(self.path)
            yield

    def _before(self, damaged: Checkpoint) -> str:
        """The nearest earlier checkpoint that is whole, as a remedy."""
        for one in reversed([one for one in self.checkpoints if one.step < damaged.step]):
            try:
                one.verify()
            except DamagedError:
                continue
            return f"The checkpoint before it is whole: add --step {one.step} to use it"
        return "No earlier checkpoint is whole: train again"


def find(folder: Path | str) -> list[Run]:
    """The runs in a folder, and in the folders inside it."""
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(f"{folder}: there is no such folder; give the one that holds your runs")
    paths = [path.parent for depth in ("", "*/", "*/*/") for path in root.glob(f"{depth}{ASKED}")]
    return [Run(path) for path in sorted(paths)]


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _digest(asked: dict[str, Any]) -> str:
    return sealed_json.digest({name: asked.get(name) for name in SEALED})
