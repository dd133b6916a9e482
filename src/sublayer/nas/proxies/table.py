"""A table of trained models as CSV, one row each: `ppl` and proxies, and `set`, `name`, `latency_ms` if known.

`sublayer proxies` writes such tables, and others have published some: where `backbone` names a paper, FLOPs are counted
from n_layer, d_model, n_head and d_inner.
"""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sublayer.files.atomic import writing
from sublayer.nas.proxies.base import names
from sublayer.nas.proxies.judging import RankedModels
from sublayer.nn.config import ConfigError
from sublayer.papers import named


@dataclass(frozen=True)
class TableRow:
    """A line of a table."""

    path: Path
    line: int
    cells: dict[str, str]

    def number(self, column: str) -> float | None:
        """None where the cell is empty."""
        text = (self.cells.get(column) or "").strip()
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(
                f"{self.path}, line {self.line}, column {column}: expected a number, got {text!r}; correct it, or "
                "leave the cell empty"
            )
        return value

    @cached_property
    def flops(self) -> float | None:
        """FLOPs of a segment of the backbone with these sizes; None where they are not given."""
        listed = {name: (self.cells.get(name) or "").split() for name in ("n_head", "d_inner")}
        layers, dim = self.cells.get("n_layer"), self.cells.get("d_model")
        if not (layers and dim and all(listed.values()) and self.cells.get("backbone") in named.names()):
            return None
        try:
            heads, inner = ([int(value) for value in values] for values in listed.values())
            sizes = {"dim": int(dim), "layout": f"(sf)x{int(layers)}", "s.heads": heads, "f.inner": inner}
            length, memory = (int(self.cells.get(name) or 64) for name in ("tgt_len", "mem_len"))
            config = named.config(self.cells["backbone"], sizes)
        except (ConfigError, ValueError):
            return None
        return config.cost(length, memory if config.carries else 0).flops.total


def read(path: Path | str) -> list[RankedModels]:
    """The sets of a table, in its order; rows without a perplexity are counted and dropped."""
    rows = _rows(Path(path))
    known = [name for name in names() if name in rows[0].cells]
    sets: dict[str, list[TableRow]] = {}
    for row in rows:
        sets.setdefault(row.cells.get("set") or "all", []).append(row)
    if "flops" not in known and all(row.flops is not None for row in rows):
        known = sorted([*known, "flops"], key=names().index)
    if not known:
        raise ValueError(f"{path}: no column to rank by; name one as a proxy ({', '.join(names())})")
    return [_models(name, of, known) for name, of in sets.items()]


def write(path: Path, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """None becomes an empty cell; numbers read back to the same bits."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows(["" if row.get(name) is None else row[name] for name in columns] for row in rows)
    with writing(path) as file:
        file.write(text.getvalue().encode())


def _models(name: str, rows: list[TableRow], known: list[str]) -> RankedModels:
    perplexities = [_positive(row, "ppl") for row in rows]
    scored = [row for row, value in zip(rows, perplexities, strict=True) if value is not None]
    latency = [_positive(row, "latency_ms") for row in scored]
    return RankedModels(
        name,
        [row.cells.get("name") or str(row.line) for row in scored],
        [value for value in perplexities if value is not None],
        {one: [_score(row, one) for row in scored] for one in known},
        [value / 1000 for value in latency if value is not None] if all(latency) else None,
        dropped=len(rows) - len(scored),
    )


def _score(row: TableRow, name: str) -> float | None:
    return row.number(name) if name in row.cells else row.flops


def _positive(row: TableRow, column: str) -> float | None:
    value = row.number(column)
    if value is not None and value <= 0:
        raise ValueError(
            f"{row.path}, line {row.line}, column {column}: expected more than 0, got {value:g}; correct it"
        )
    return value


def _rows(path: Path) -> list[TableRow]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file; give a table as CSV, with a column ppl") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}; give a table as CSV, in UTF-8") from None
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        columns = [name.strip() for name in reader.fieldnames or ()]
        if "ppl" not in columns:
            listed = textwrap.shorten(", ".join(columns), 200, placeholder=" …") or "none"
            raise ValueError(f"{path}: no column ppl, the true perplexity of each model; the columns are {listed}")
        reader.fieldnames = columns
        rows = [TableRow(path, reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: not CSV: {error}; correct it") from None
    if not rows:
        raise ValueError(f"{path}: a header and no rows; add a row for each trained model")
    for row in rows:
        if None in row.cells or None in row.cells.values():
            raise ValueError(f"{path}, line {row.line}: not as many cells as the {len(columns)} columns; correct it")
    return rows
