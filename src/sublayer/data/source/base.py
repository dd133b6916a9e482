"""Source: where texts come from, read as a stream.

Documents come as bytes, as they are: only a tokenizer of text asks that they be UTF-8. A large one comes in pieces, so
that no source need fit into memory (text8 normalisation alone wants a whole document).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import ClassVar, NamedTuple

from sublayer.data.source.text8 import text8
from sublayer.files import cache
from sublayer.nn.config import Config


class Piece(NamedTuple):
    name: str
    """Of the document it belongs to."""
    data: bytes
    begins: bool
    """Whether it is the document's first."""


class Document(NamedTuple):
    name: str
    text: bytes


class Source:
    """Abstract: a kind reads its documents."""

    class Config(Config, family="source"):
        where: ClassVar[tuple[str, ...]] = ("path",)
        """Fields that locate the text, and do not change it: the same text at another path has the same key."""

        read_once: ClassVar[bool] = False
        """Whether it can be read only once, so that a run names the text by its key in the cache instead."""

        text8: bool = False
        """Mahoney's text8 normalisation: a–z in lower case and single spaces, digits spelled out, markup removed."""

        def build(self) -> Source:
            return self.owner(self)

        @property
        def folder(self) -> Path | None:
            """The folder whose files are the text, if it is all of a folder; a run must not be written there."""
            return None

        @property
        def options(self) -> dict[str, object]:
            """Fields that change the text."""
            return {name: value for name, value in self.dump().items() if name not in self.where}

    def __init__(self, config: Source.Config) -> None:
        self.config = config

    @staticmethod
    def guess(typed: str) -> Source.Config:
        """What a user means by `stdlib`, `-`, `x.txt`, `x.gz`, `folder/`, `*.md`, `x.jsonl`, `hub:owner/name`."""
        from sublayer.data.source.guess import guess

        return guess(typed)

    @property
    def title(self) -> str:
        """Its name in messages."""
        return str(getattr(self.config, "path", self.config.tag))

    def read(self) -> Iterator[Piece]:
        """The documents as they lie there."""
        raise NotImplementedError

    def fingerprint(self) -> str | None:
        """Changes whenever the text does, and is known without reading it as text; None if it must be read for that."""
        return None

    @property
    def stored_key(self) -> str | None:
        """Key of the text in the cache, where the source is a text that was read before; None if it must be read."""
        return None

    def stamp(self) -> object:
        """Changes if the text is changed while it is being read; cheap."""
        return None

    def pieces(self) -> Iterator[Piece]:
        """The documents, normalised if the config asks for it."""
        if not self.config.text8:
            yield from self.read()
            return
        for name, text in whole(self.read()):
            yield Piece(name, text8(text), begins=True)

    def documents(self) -> Iterator[Document]:
        """The documents, each whole."""
        return whole(self.pieces())

    def joined(self) -> Iterator[Piece]:
        """The documents one after another; a line end is put between two if the first has none (text8 begins with a
        space)."""
        last = b"\n"
        for piece in self.pieces():
            if piece.begins and last != b"\n" and not self.config.text8:
                yield Piece(piece.name, b"\n", begins=False)
            if piece.data:
                yield piece
                last = piece.data[-1:]

    def locate(self, offset: int) -> str:
        """Which document holds this byte of the joined text, and where: `notes/a.txt, byte 12`."""
        name, begin, end = self.title, 0, 0
        for piece in self.joined():
            if piece.begins:
                name, begin = piece.name, end
            end += len(piece.data)
            if offset < end:
                break
        return f"{name}, byte {offset - begin:,}"


def whole(pieces: Iterator[Piece]) -> Iterator[Document]:
    """Pieces put together again."""
    number = 0

    def count(piece: Piece) -> int:
        nonlocal number
        number += piece.begins
        return number

    for _, group in groupby(pieces, count):
        first, *rest = group
        yield Document(first.name, b"".join([first.data, *(piece.data for piece in rest)]) if rest else first.data)


def identity(config: Source.Config, **content: object) -> str:
    """A fingerprint of some content under a source's options."""
    return cache.key(options=config.options, **content)
