"""Data: what a model learns from, a text, a task or images, in three splits: train, valid and test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sublayer.nn.config import Config

if TYPE_CHECKING:
    from sublayer.data.batches import Batch, Batches
    from sublayer.data.tokenizer import Tokenizer

TASK = "task:"
"""Prefix of a task's name where a text may be given, too."""


class Data:
    """Abstract: a kind defines where its tokens come from, and in which order training reads them."""

    class Config(Config, family="data"):
        gives: ClassVar[str] = "tokens"
        """The kind of its batches: an objective trains on the kind that it needs.

        tokens: rows of a text, each token with the one after it. answers: rows with a target where one is asked for.
        """
        prefix: ClassVar[str] = ""
        """What a user types before a name of this kind, such as `task:`; empty for a kind without such names."""
        what: ClassVar[str] = "a text"
        """Its kind in messages."""

        @classmethod
        def guess(cls, typed: str) -> Data.Config:
            """From what a user types: a name with a prefix means the kind that claims the prefix, all else a text.

            The prefix alone is enough, without its colon too where no file has that name.
            """
            from sublayer.data.dataset import Dataset

            kind = cls.claiming(typed) or (None if Path(typed).exists() else cls.claiming(f"{typed}:"))
            return Dataset.Config.guess(typed) if kind is None else kind.named(typed[len(kind.prefix) :])

        @classmethod
        def claiming(cls, typed: str) -> type[Data.Config] | None:
            """The kind whose prefix a name has; None for a text."""
            for kind in cls.registry.values():
                assert issubclass(kind, Data.Config)
                if kind.prefix and typed.startswith(kind.prefix):
                    return kind
            return None

        @classmethod
        def named(cls, name: str) -> Data.Config:
            """The config that a name after the prefix means; by default the kind with this tag."""
            return cls.parse(name) if cls.tag == name else Data.Config.parse(name)

        @property
        def called(self) -> str:
            """Its name in messages, before it is prepared."""
            return f"{self.prefix}{self.tag}" if self.prefix else self.what

        def prepare(self, folder: Path | str | None = None, tokenizer: Tokenizer | None = None) -> Data:
            """The data, ready to be batched; see `prepare`."""
            raise NotImplementedError

        def whole(self) -> Data.Config | None:
            """The same data with all of it in train; None where the splits are given, not cut from one text."""
            return None

        @property
        def folder(self) -> Path | None:
            """The folder whose files are read, however many there are; None where no folder is named."""
            return None

    alone: ClassVar[bool] = False
    """Whether each row is read by itself, also by a model that could carry state from one to the next."""
    row: ClassVar[str] = "episode"
    """What is read as a row of its own where `longest` is known."""

    config: Any
    """Its own class's Config."""
    tokenizer: Tokenizer
    train: Any
    valid: Any
    test: Any

    @property
    def title(self) -> str:
        """Its name in messages."""
        raise NotImplementedError

    def title_of(self, split: str) -> str:
        """The name of what a split is read from; the same for all where they are cut from one text."""
        return self.title

    @property
    def vocab(self) -> int:
        """Number of ids that are read."""
        return self.tokenizer.vocab

    @property
    def classes(self) -> int | None:
        """Number of answers, where answers are not ids that are read."""
        return None

    @property
    def hash(self) -> str:
        """The same for the same tokens."""
        raise NotImplementedError

    def longest(self, split: str) -> int | None:
        """Tokens of the longest row of a split that is read without state; None: rows are as long as asked for."""
        return None

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """Rows, columns and channels of each image, a token each; None where tokens are no pixels."""
        return None

    @property
    def row_length(self) -> int | None:
        """Tokens of a row, where all rows of all splits are of one length and read whole; None where that varies."""
        return None

    def bytes_per_token(self, split: str) -> float | None:
        """Mean over a split; None where tokens stand for no bytes."""
        return None

    def figures(self, loss: float, split: str) -> dict[str, float]:
        """What is reported beside the mean loss of a token, in nats."""
        size, perplexity = self.bytes_per_token(split), math.exp(min(loss, 700.0))  # above 709 exp overflows
        return {"perplexity": perplexity} | ({} if size is None else {"bits_per_byte": loss / math.log(2) / size})

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
        """Train, without end. carry: each batch continues the one before it."""
        raise NotImplementedError

    def sweep(
        self,
        split: str,
        batch: int,
        length: int,
        *,
        carry: bool,
        limit: int | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> Iterator[Batch]:
        """A split in order, every target once. carry: each batch continues the one before it, unless it is `fresh`.

        limit: only about so many tokens from the beginning.
        """
        raise NotImplementedError
