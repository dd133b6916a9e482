"""The source text of the running Python's own standard library: a text that is on every machine."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from sublayer.data.source.base import Piece, Source
from sublayer.data.source.files import Files, blocks

INSTALLED = {"site-packages", "dist-packages", "__pycache__"}
TESTS = {"test", "tests", "idle_test"}


class Stdlib(Files):
    """In the order of paths; files that are not UTF-8 are skipped."""

    class Config(Source.Config, tag="stdlib"):
        tests: bool = False
        """Whether the library's own tests are read too: more than half of its text, much of it tables."""

    config: Config
    root = Path(sysconfig.get_path("stdlib"))

    @property
    def title(self) -> str:
        return "the standard library"

    def find(self) -> list[Path]:
        skipped = INSTALLED if self.config.tests else INSTALLED | TESTS
        found: list[Path] = []
        for folder, inner, files in os.walk(self.root):
            inner[:] = [name for name in inner if name not in skipped]
            found += [Path(folder, name) for name in files if name.endswith(".py")]
        if not found:
            raise ValueError(f"stdlib: no .py files in {self.root}, as in some minimal Pythons; give a text of yours")
        return sorted(found, key=self.name)

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def read(self) -> Iterator[Piece]:
        for path in self.paths:
            text = b"".join(blocks(path))
            if _is_utf8(text):
                yield Piece(self.name(path), text, begins=True)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
