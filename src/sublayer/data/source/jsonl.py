"""JSON Lines: one object a line, one of whose fields is the text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sublayer.data.source.base import Piece, Source
from sublayer.data.source.files import Files, blocks, matching


class Jsonl(Files):
    """Each line is a document of its own; blank lines are skipped."""

    class Config(Source.Config, tag="jsonl"):
        path: str
        """A file, plain or .gz, or a pattern."""
        field: str = "text"

    config: Config

    def find(self) -> list[Path]:
        return matching(self.config.path)

    def read(self) -> Iterator[Piece]:
        for path in self.paths:
            for number, line in enumerate(lines(blocks(path)), 1):
                if line.strip():
                    where = f"{path}, line {number}"
                    yield Piece(where, text_of(_object(line, where), self.config.field, where), begins=True)


def lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *done, rest = (rest + block).split(b"\n")
        yield from done
    if rest:
        yield rest


def _object(line: bytes, where: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at column {error.colno}"
    except UnicodeDecodeError as error:
        problem = f"0x{line[error.start]:02x} at column {error.start + 1} is not UTF-8"
    except RecursionError:
        problem = "nested too deeply"
    except ValueError as error:  # a number of too many digits
        problem = str(error)
    raise ValueError(f'{where}: not JSON ({problem}); each line must be one object, as in {{"text": "…"}}')


def text_of(row: Any, field: str, where: str) -> bytes:
    """The text of one record, as UTF-8."""
    if not isinstance(row, dict):
        raise ValueError(f"{where}: a {type(row).__name__}, expected an object with a field {field!r}")
    if field not in row:
        raise ValueError(f"{where}: there is no field {field!r}; set data.source.field to one of {', '.join(row)}")
    if not isinstance(row[field], str):
        raise ValueError(
            f"{where}: the field {field!r} is a {type(row[field]).__name__}, expected a text; set "
            "data.source.field to one that is"
        )
    try:
        return row[field].encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where}: the field {field!r} holds half a surrogate pair; repair or drop the line") from None
