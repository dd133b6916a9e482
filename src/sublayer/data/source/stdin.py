"""Standard input: read once, and stored in the cache."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from sublayer.data.source.base import Piece, Source
from sublayer.data.source.files import BLOCK


class Stdin(Source):
    class Config(Source.Config, tag="stdin"):
        read_once = True

    @property
    def title(self) -> str:
        return "standard input"

    def read(self) -> Iterator[Piece]:
        if sys.stdin is None or sys.stdin.isatty():
            raise ValueError("standard input: nothing is piped into it; write `cat TEXT | sublayer …`, or give a file")
        begins = True
        while block := sys.stdin.buffer.read(BLOCK):
            yield Piece(self.title, block, begins)
            begins = False

    def locate(self, offset: int) -> str:
        return f"{self.title}, byte {offset:,}"
