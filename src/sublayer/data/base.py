"""Data: what a model learns from, a text or a task, in three splits: train, valid and test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from sublayer.nn.config import Config

if TYPE_CHECKING:
    from sublayer.data.batches import Batches
    from sublayer.data.tokenizer import Tokenizer

TASK = "task:"
"""Prefix of a task's name where a text may be given, too."""


class Data:
    """Abstract: a kind gives its tokens, and the order in which training reads them."""

    class Config(Config, family="data"):
        @classmethod
        def guess(cls, said: str) -> Data.Config:
            """From what a user types: `task:copy` is a task, all else a text."""
            from sublayer.data.dataset import Dataset
            from sublayer.data.tasks import Task

            return Task.named(said.removeprefix(TASK)) if said.startswith(TASK) else Dataset.Config.guess(said)

    alone: ClassVar[bool] = False
    """Whether each episode is read by itself, also by a model that could carry state from one to the next."""

    config: Any
    """Its own class's Config."""
    tokenizer: Tokenizer
    train: Any
    valid: Any
    test: Any

    @property
    def title(self) -> str:
        """What messages call it."""
        raise NotImplementedError

    @property
    def vocab(self) -> int:
        """How many ids are read."""
        return self.tokenizer.vocab

    @property
    def classes(self) -> int | None:
        """How many answers there are, where they are not ids that are read."""
        return None

    @property
    def hash(self) -> str:
        """The same for the same tokens."""
        raise NotImplementedError

    def batches(
        self,
        batch: int,
        length: int,
        *,
        carry: bool,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        cursor: Mapping[str, Any] | None = None,
    ) -> Batches:
        """Train, without end. carry: each batch goes on where the one before it ended."""
        raise NotImplementedError
