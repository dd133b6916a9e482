"""A small training, as a task."""

from pathlib import Path
from typing import Any

import sublayer
from sublayer.data import DataConfig
from sublayer.training import TrainConfig
from tests.training import tiny

MODEL = {key: value for key, value in tiny.SMALL.items() if not key.startswith("train.")}
TRAIN = {key.removeprefix("train."): value for key, value in tiny.SMALL.items() if key.startswith("train.")}


def task(book: Path, out: Path, **train: Any) -> dict[str, Any]:
    return {
        "model": sublayer.config("gpt2", MODEL).dump(),
        "data": DataConfig(source={"kind": "file", "path": str(book)}).dump(),
        "train": TrainConfig().but({**TRAIN, **train}).dump(),
        "out": str(out),
        "origin": "gpt2",
    }
