"""Texts to batches: source → splits → tokenizer → token files → batches with a cursor that resumes.

    data = prepare(DataConfig.guess("book.txt"))
    for batch in Windows(data.train, batch=16, length=256):
        …

Only batches need torch, which is loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sublayer.data.dataset import Dataset, prepare
from sublayer.data.source import Source
from sublayer.data.splits import Fractions, Given, Splits
from sublayer.data.tokenizer import Tokenizer
from sublayer.data.tokens import Tokens

if TYPE_CHECKING:
    from sublayer.data.batches import Batch, Batches, Lanes, Sweep, Windows

DataConfig = Dataset.Config

__all__ = [
    "Batch",
    "Batches",
    "DataConfig",
    "Dataset",
    "Fractions",
    "Given",
    "Lanes",
    "Source",
    "Splits",
    "Sweep",
    "Tokenizer",
    "Tokens",
    "Windows",
    "prepare",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sublayer.data' has no attribute {name!r}")
    from sublayer.data import batches

    return getattr(batches, name)
