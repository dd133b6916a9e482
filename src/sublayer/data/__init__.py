"""Texts to batches: source → splits → tokenizer → token files → batches with a cursor that resumes.

data = prepare(DataConfig.guess("book.txt"))
for batch in Windows(data.train, batch=16, length=256):
    …
"""

from sublayer.data.batches import Batch, Batches, Lanes, Sweep, Windows
from sublayer.data.dataset import Dataset, prepare
from sublayer.data.source import Source
from sublayer.data.splits import Fractions, Given, Splits
from sublayer.data.tokenizer import Tokenizer
from sublayer.data.tokens import Tokens

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
