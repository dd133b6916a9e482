"""Tokens: one split of a text as ids, made once and mapped into memory, with the counts that scores are given by."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sublayer.data import mapped
from sublayer.data.chunks import parts
from sublayer.data.text import Text
from sublayer.data.tokenizer import NotTextError, Tokenizer
from sublayer.files import cache

log = logging.getLogger(__name__)

COUNTED_AT_ONCE = 1 << 22
SPACE_C = np.isin(np.arange(256), np.frombuffer(b" \t\n\r\v\f", np.uint8))


@dataclass(frozen=True)
class Split:
    """A part of a text, from one byte to another."""

    text: Text
    start: int
    stop: int

    @property
    def key(self) -> str:
        return cache.key(text=self.text.key, start=self.start, stop=self.stop)

    @property
    def bytes(self) -> np.ndarray:
        return self.text.bytes[self.start : self.stop]

    def refuse(self, error: NotTextError, offset: int) -> ValueError:
        """The error, with the name of the document it is in."""
        return ValueError(error.message(self.text.locate(self.start + offset + error.start)))


@dataclass(frozen=True)
class Tokens:
    """One split: its ids, and the bytes they encode."""

    name: str
    """train, valid or test."""
    ids: np.ndarray
    """Unsigned numbers as small as the vocabulary allows; read-only, mapped from disk."""
    part: Split

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def bytes(self) -> int:
        """Of the text: nats per token · tokens / bytes / ln 2 are bits per byte."""
        return self.part.stop - self.part.start

    @cached_property
    def characters(self) -> int:
        """Bytes that begin a character."""
        return sum(int(np.count_nonzero((data & 0xC0) != 0x80)) for data in self._blocks())

    @cached_property
    def words(self) -> int:
        """Runs between (ASCII) white space."""
        count, before = 0, True
        for data in self._blocks():
            space = SPACE_C[data]
            count += int(np.count_nonzero(space[:-1] & ~space[1:])) + (before and not space[0])
            before = bool(space[-1])
        return count

    def _blocks(self) -> Iterator[np.ndarray]:
        data = self.part.bytes
        for start in range(0, len(data), COUNTED_AT_ONCE):
            yield data[start : start + COUNTED_AT_ONCE]


def tokenise(name: str, part: Split, tokenizer: Tokenizer, folder: Path) -> Tokens:
    """The part's ids, from the cache if they are there."""
    if tokenizer.verbatim:
        return Tokens(name, part.bytes, part)
    key = cache.key(format=mapped.FORMAT, part=part.key, tokenizer=tokenizer.hash)

    def ids() -> Iterator[np.ndarray]:
        for start, data in parts(part.bytes, tokenizer.seam):
            how_far = {"done": start, "total": len(part.bytes)}
            log.info("tokenising %s of %s", name, part.text.source.title, extra=how_far)
            try:
                yield tokenizer.encode(data)
            except NotTextError as error:
                raise part.refuse(error, start) from None

    made_from = {"text": part.text.key, "start": part.start, "stop": part.stop, "tokenizer": tokenizer.hash}
    return Tokens(name, mapped.build(folder / "tokens" / key, tokenizer.dtype, ids, **made_from), part)


def fit(config: Tokenizer.Config, part: Split, folder: Path) -> Tokenizer:
    """A tokenizer that has learned from this part, from the cache if it is there."""
    if not config.owner.learns_from_text:
        return config.fit([])
    path = folder / "tokenizers" / f"{cache.key(part=part.key, tokenizer=config.dump())}.json"
    with suppress(ValueError):
        return Tokenizer.load(path)
    with cache.held(path):
        if path.exists():  # another process may have made it meanwhile
            try:
                return Tokenizer.load(path)
            except ValueError as error:
                log.warning("%s; it is learned again", error)
        log.info("learning the vocabulary of %s", part.text.source.title)
        found = config.fit(_readable(config, part))
        found.save(path)
    return found


def _readable(config: Tokenizer.Config, part: Split) -> Iterator[str]:
    for start, data in parts(part.bytes, config.owner.seam):
        try:
            yield data.decode()
        except UnicodeDecodeError as error:
            raise part.refuse(NotTextError(error), start) from None
