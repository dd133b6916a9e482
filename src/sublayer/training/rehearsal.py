"""A rehearsal: a few steps of the real trainer, once in one go, once killed and resumed, to compare the bits.

It is for the laws: any small model and any objective goes through the same loop, checkpoints and reading back as a
training that a user starts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from sublayer.data import Data, prepare
from sublayer.nn.model import Model
from sublayer.runs import Progress, Run
from sublayer.training.config import TrainConfig
from sublayer.training.job import begin, resume
from sublayer.training.reporters import ProgressReporter

SETTINGS: dict[str, Any] = {"steps": 5, "batch": 2, "length": 12, "warmup": 2, "log_every": 1, "eval_tokens": 48}
KILLED_AFTER, SAVED_EVERY = 3, 2
"""The step at which a training is killed is not one that was saved: the steps since the checkpoint are taken again."""


@dataclass(frozen=True)
class Rehearsal:
    """What both trainings ended with: tensors by `file/name`, and their lines of metrics."""

    whole: Mapping[str, Tensor]
    resumed: Mapping[str, Tensor]
    whole_metrics: bytes
    resumed_metrics: bytes

    @property
    def differing(self) -> list[str]:
        """Names of what is not equal to the last bit; empty if resuming changes nothing."""
        names = sorted(self.whole.keys() | self.resumed.keys())
        unequal = [name for name in names if not _equal(self.whole.get(name), self.resumed.get(name))]
        return unequal + ([] if self.whole_metrics == self.resumed_metrics else ["metrics"])


class Killed(BaseException):
    """Ends a training as Ctrl-C does, between two steps."""


def rehearse(model: Model.Config, data: Data.Config | None = None, **train: Any) -> Rehearsal:
    """Train five steps; train again, kill it after three, resume it to the end.

    data: a small text if not given, whose vocabulary the model takes. train: fields of TrainConfig, such as objective.
    Raises ConfigError where the model cannot be trained on such data.
    """
    config = TrainConfig(**{**SETTINGS, "eval_every": SAVED_EVERY, "save_every": SAVED_EVERY, **train})
    threads = torch.get_num_threads()
    try:
        with TemporaryDirectory(prefix="sublayer-rehearsal-") as folder, torch.random.fork_rng(devices=[]):
            prepared = prepare(data or _text(Path(folder)), folder=Path(folder) / "cache")
            runs = [begin(model, prepared.config, Path(folder) / name, config, {}, prepared=prepared) for name in "ab"]
            resume(runs[0], prepared=prepared)
            try:
                resume(runs[1], prepared=prepared, reporter=_Killer())
            except Killed:
                resume(Run.open(runs[1].path), prepared=prepared)
            (whole, lines), (resumed, again) = (_left(run) for run in runs)
            return Rehearsal(whole, resumed, lines, again)
    finally:
        torch.set_num_threads(threads)


class _Killer(ProgressReporter):
    def step(self, progress: Progress, spent: float) -> None:
        if progress.step == KILLED_AFTER:
            raise Killed


def _left(run: Run) -> tuple[dict[str, Tensor], bytes]:
    last = run.checkpoints[-1]
    files = [path.stem for path in sorted(last.path.glob("*.safetensors"))]
    tensors = {f"{file}/{name}": one for file in files for name, one in (last.tensors(file) or {}).items()}
    return tensors, run.metrics.path.read_bytes()


def _equal(here: Tensor | None, there: Tensor | None) -> bool:
    return here is not None and there is not None and here.dtype == there.dtype and torch.equal(here, there)


def _text(folder: Path) -> Data.Config:
    """Two thousand letters, drawn."""
    path = folder / "text.txt"
    path.write_text("".join(random.Random(0).choices("abcdefg \n", k=2000)), encoding="utf-8")
    return Data.Config.guess(str(path))
