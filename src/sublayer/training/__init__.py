"""Training: a plain loop over batches, in a run that can be killed at any moment and resumes to the same bits.

run = train("gpt2", data="book.txt", out="runs/book", changes={"dim": 128, "train.steps": 500})
resume("runs/book")
"""

from sublayer.training.config import TrainConfig
from sublayer.training.guard import DivergedError
from sublayer.training.job import resume, train

__all__ = ["DivergedError", "TrainConfig", "resume", "train"]
