"""Sources as users write them."""

from __future__ import annotations

from glob import has_magic
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from sublayer.data.base import Data
from sublayer.data.source.base import Source
from sublayer.data.source.file import File
from sublayer.data.source.folder import FolderSource
from sublayer.data.source.glob import Glob
from sublayer.data.source.hub import Hub
from sublayer.data.source.jsonl import Jsonl
from sublayer.data.source.stdin import Stdin
from sublayer.nn.config import ConfigError

JSON_LINES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")


def guess(typed: str) -> Source.Config:
    """`stdlib`, `-`, `x.txt`, `x.gz`, `folder/`, `*.md`, `x.jsonl`, `x.parquet`, `hub:owner/name[:configuration]`.

    A word that names a kind is that kind; write ./stdlib for a file of that name.
    """
    if not typed.strip():
        raise ConfigError("data: nothing is named; give a file, a folder, a pattern, stdlib, or - for standard input")
    if (kind := Data.Config.claiming(typed)) is not None:
        raise ConfigError(
            f"{typed}: is {kind.what}, expected a text; {kind.what} is for sublayer train, eval and compare --data"
        )
    if typed == "-":
        return Stdin.Config()
    if typed in Source.Config.registry:
        return Source.Config.parse(typed, "data")
    if typed.startswith("hub:"):
        path, _, name = typed.removeprefix("hub:").partition(":")
        return Hub.Config(path=path, name=name or None)
    if typed.endswith(".parquet"):
        return Hub.Config(path=typed)
    if typed.endswith(JSON_LINES):
        return Jsonl.Config(path=typed)
    path = Path(typed).expanduser()
    if path.is_dir() or typed.endswith("/"):
        return FolderSource.Config(path=typed)
    if has_magic(typed) and not path.exists():
        return Glob.Config(path=typed)
    return File.Config(path=typed)


def _guess_words(value: Any) -> Any:
    return guess(value) if isinstance(value, str) else value


Guessed = Annotated[Source.Config, BeforeValidator(_guess_words)]
"""A field that takes a source's config, its table, or what a user types."""
