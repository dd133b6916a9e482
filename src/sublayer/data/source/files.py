"""Files: what the kinds that read from disk share."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path

from sublayer.data.source.base import Piece, Source, identity

BLOCK = 1 << 20


class Files(Source):
    """Abstract: a kind lists its files in order. Those that end in .gz are unpacked on the way."""

    def find(self) -> list[Path]:
        raise NotImplementedError

    @cached_property
    def paths(self) -> list[Path]:
        return self.find()

    def read(self) -> Iterator[Piece]:
        for path in self.paths:
            begins = True
            for block in blocks(path):
                yield Piece(str(path), block, begins)
                begins = False

    def fingerprint(self) -> str:
        return identity(self.config, files=[digest(path) for path in self.paths])

    def stamp(self) -> object:
        return [_stat(path) for path in self.paths]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of reading a file, in one line."""
    try:
        yield
    except FileNotFoundError:
        raise ValueError(
            f"{path}: there is no such file; give a file, a folder, a pattern in quotes ('*.md'), stdlib, or - for "
            "standard input"
        ) from None
    except IsADirectoryError:
        raise ValueError(f"{path}: is a folder, expected a file; write {path}/ to read all files in it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{path}: not a whole gzip file ({error}); fetch it again, or rename it if it is none"
        ) from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}; check its permissions") from None


def blocks(path: Path) -> Iterator[bytes]:
    """A file's content, unpacked, in large blocks."""
    with reading(path), gzip.open(path) if path.suffix == ".gz" else open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK):
            yield block


def digest(path: Path) -> str:
    with reading(path), open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stat(path: Path) -> tuple[int, int]:
    with reading(path):
        found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def matching(pattern: str) -> list[Path]:
    """The files a pattern matches (`**` for any depth), in the order of their names; a plain path is itself."""
    path = Path(pattern).expanduser()
    if not has_magic(pattern) or path.exists():
        return [path]
    found = sorted(Path(name) for name in glob(str(path), recursive=True))
    files = [path for path in found if path.is_file()]
    if not files:
        raise ValueError(f"{pattern}: matches no file; check the folder it starts from ({Path.cwd()}), or quote it")
    return files
