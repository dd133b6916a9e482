"""What a user types, as a source."""

from __future__ import annotations

from glob import has_magic
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from sublayer.data.base import TASK
from sublayer.data.source.base import Source
from sublayer.data.source.file import File
from sublayer.data.source.folder import Folder
from sublayer.data.source.glob import Glob
from sublayer.data.source.hub import Hub
from sublayer.data.source.jsonl import Jsonl
from sublayer.data.source.stdin import Stdin
from sublayer.nn.config import ConfigError

JSON_LINES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")


def guess(said: str) -> Source.Config:
    """`stdlib`, `-`, `x.txt`, `x.gz`, `folder/`, `*.md`, `x.jsonl`, `x.parquet`, `hub:owner/name[:configuration]`.

    A word that names a kind is that kind; write ./stdlib for a file of that name.
    """
    if not said.strip():
        raise ConfigError("data: nothing is named; give a file, a folder, a pattern, stdlib, or - for standard input")
    if said.startswith(TASK):
        raise ConfigError(f"{said}: is a task, expected a text; tasks are for sublayer train, eval and compare --data")
    if said == "-":
        return Stdin.Config()
    if said in Source.Config.registry:
        return Source.Config.parse(said, "data")
    if said.startswith("hub:"):
        path, _, name = said.removeprefix("hub:").partition(":")
        return Hub.Config(path=path, name=name or None)
    if said.endswith(".parquet"):
        return Hub.Config(path=said)
    if said.endswith(JSON_LINES):
        return Jsonl.Config(path=said)
    path = Path(said).expanduser()
    if path.is_dir() or said.endswith("/"):
        return Folder.Config(path=said)
    if has_magic(said) and not path.exists():
        return Glob.Config(path=said)
    return File.Config(path=said)


def _guess_words(value: Any) -> Any:
    return guess(value) if isinstance(value, str) else value


Guessed = Annotated[Source.Config, BeforeValidator(_guess_words)]
"""A field that takes a source's config, its table, or what a user types."""
