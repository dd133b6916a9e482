"""Texts to batches: source → splits → tokenizer → token files → batches with a cursor that resumes; images, whose
pixels are tokens; and tasks, whose episodes are drawn.

data = prepare(DataConfig.guess("book.txt"))
for batch in Windows(data.train, batch=16, length=256):
    …
"""

from sublayer.data.base import Data
from sublayer.data.batches import Batch, Batches, Lanes, Sweep, Windows
from sublayer.data.dataset import Dataset, prepare
from sublayer.data.images import Images
from sublayer.data.source import Source
from sublayer.data.splits import Fractions, Given, Splits
from sublayer.data.tasks import Examples, Task
from sublayer.data.tokenizer import Tokenizer
from sublayer.data.tokens import Tokens

DataConfig = Dataset.Config

__all__ = [
    "Batch",
    "Batches",
    "Data",
    "DataConfig",
    "Dataset",
    "Examples",
    "Fractions",
    "Given",
    "Images",
    "Lanes",
    "Source",
    "Splits",
    "Sweep",
    "Task",
    "Tokenizer",
    "Tokens",
    "Windows",
    "prepare",
]
