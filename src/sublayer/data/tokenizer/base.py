"""Tokenizer: a text as ids, and back. `Config.fit` learns the vocabulary from texts.

The vocabulary is plain JSON, so that a tokenizer is saved and loaded without pickle, on any machine, with one hash.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from re import Pattern
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from torch import Tensor

from sublayer.data.mapped import dtype_for
from sublayer.files import cache
from sublayer.files.atomic import writing
from sublayer.nn.config import Config

if TYPE_CHECKING:
    from sublayer.data.tokenizer.pixels import Pixels

FORMAT = 1
MinCount = Annotated[int, Field(ge=1, le=2**31)]
"""How often something must be seen to enter the vocabulary."""
Ids = Sequence[int] | np.ndarray | Tensor


class NotTextError(ValueError):
    """Bytes that are not UTF-8, where a tokenizer of text reads them."""

    def __init__(self, error: UnicodeDecodeError) -> None:
        self.start, self.byte = error.start, error.object[error.start]
        super().__init__(self.message(f"byte {self.start:,}"))

    def message(self, where: str) -> str:
        return (
            f"{where}: 0x{self.byte:02x} is not UTF-8, expected text; convert it, leave the file out, or use the byte "
            "tokenizer, which reads anything"
        )


class Tokenizer:
    """Abstract: a kind defines what a token is."""

    verbatim: ClassVar[bool] = False
    """Whether the ids are the bytes themselves, so that no token file need be written."""
    learns_from_text: ClassVar[bool] = True
    """Whether `fit` reads the texts."""
    seam: ClassVar[Pattern[bytes]]
    """After a match a text may be cut: its parts encode, and count, as the whole does."""

    class Config(Config, family="tokenizer"):
        def fit(self, texts: Iterable[str | bytes]) -> Tokenizer:
            """A tokenizer that knows the vocabulary of these texts."""
            return self.owner(self, self.owner.learn(self, texts))

    vocab: int
    """How many ids there are."""

    def __init__(self, config: Tokenizer.Config, learned: Any) -> None:
        self.config, self.learned = config, learned

    @staticmethod
    def learn(config: Any, texts: Iterable[str | bytes]) -> Any:
        """The vocabulary of these texts, as plain JSON."""
        return None

    @cached_property
    def dtype(self) -> np.dtype:
        """The smallest unsigned numbers that hold its ids."""
        return dtype_for(self.vocab)

    def encode(self, text: str | bytes) -> np.ndarray:
        raise NotImplementedError

    def decode(self, ids: Ids) -> str:
        raise NotImplementedError

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Text as its ids arrive; joined, the pieces are what `decode` gives of all ids."""
        for token in ids:
            yield self.decode([token])

    @property
    def pixels(self) -> Pixels | None:
        """Itself, where ids are the pixels of an image; None where they are none."""
        return None

    # Reading and writing

    def dump(self) -> dict[str, Any]:
        return {"format": FORMAT, "tokenizer": self.config.dump(), "learned": self.learned}

    @classmethod
    def parse(cls, data: Any) -> Tokenizer:
        if not isinstance(data, dict) or data.get("format") != FORMAT or "tokenizer" not in data:
            raise ValueError("expected an object with format 1, tokenizer and learned")
        config = Tokenizer.Config.parse(data["tokenizer"], "tokenizer")
        try:
            return config.owner(config, data.get("learned"))
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise ValueError(f"not what the {config.tag} tokenizer learns: {error!r}") from None

    @cached_property
    def hash(self) -> str:
        """sha256 of the canonical JSON: the same for the same tokenizer, on any machine."""
        return cache.key(**self.dump())

    def save(self, path: Path | str) -> None:
        with writing(Path(path)) as file:
            file.write(json.dumps({**self.dump(), "hash": self.hash}).encode())

    @classmethod
    def load(cls, path: Path | str) -> Tokenizer:
        """From `save`d JSON; one that was changed since is refused."""
        try:
            data = json.loads(Path(path).read_bytes())
            found = cls.parse(data)
        except FileNotFoundError:
            raise ValueError(f"{path}: there is no such file, expected a saved tokenizer") from None
        except RecursionError:
            raise ValueError(f"{path}: not a tokenizer: nested too deeply") from None
        except (ValueError, OSError) as error:
            raise ValueError(f"{path}: not a tokenizer: {error}") from None
        if data.get("hash") != found.hash:
            raise ValueError(f"{path}: its content does not match its hash; it was damaged or edited, make it again")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab={self.vocab})"

    def checked(self, ids: Ids) -> np.ndarray:
        """Ids as an array, all of them known."""
        array = np.asarray(ids, dtype=np.int64).reshape(-1)
        outside = array[(array < 0) | (array >= self.vocab)]
        if len(outside):
            raise ValueError(
                f"ids: {outside[0]} is outside the vocabulary of {self.vocab}; the ids come from another tokenizer"
            )
        return array


class BytesTokenizer(Tokenizer):
    """Abstract: one whose tokens are strings of bytes, so that a character may span several."""

    def bytes_of(self, ids: Ids) -> bytes:
        raise NotImplementedError

    def decode(self, ids: Ids) -> str:
        """What is not UTF-8 shows as �."""
        return self.bytes_of(ids).decode(errors="replace")

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for token in ids:
            yield decoder.decode(self.bytes_of([token]))
        yield decoder.decode(b"", final=True)


def as_text(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise NotTextError(error) from None
