"""Prompts: rows of ids to be continued, checked and padded to one length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Rows = Sequence[Sequence[int]] | Tensor


@dataclass(frozen=True)
class Prompts:
    """Rows padded on the left, so that all end at the same column."""

    rows: list[list[int]]
    ids_BL: Int[Tensor, "B L"]
    valid_BL: Bool[Tensor, "B L"] | None
    """False on padding; None where all rows are of one length."""

    @classmethod
    def of(cls, name: str, rows: Rows, vocab: int, device: torch.device, *, left: bool = True) -> Prompts:
        """`left`: pad on the left; a source, which nothing follows, is padded on the right."""
        read = [read_row(f"{name}[{n}]", row, vocab) for n, row in enumerate(listed(name, rows))]
        longest = max(len(row) for row in read)
        ids_BL = torch.zeros(len(read), longest, dtype=torch.long, device="cpu")
        valid_BL = torch.zeros_like(ids_BL, dtype=torch.bool)
        for n, row in enumerate(read):
            where = slice(longest - len(row), longest) if left else slice(0, len(row))
            ids_BL[n, where] = torch.tensor(row, device="cpu")
            valid_BL[n, where] = True
        return cls(read, ids_BL.to(device), None if valid_BL.all() else valid_BL.to(device))

    @property
    def length(self) -> int:
        return self.ids_BL.shape[1]


def listed(name: str, rows: Rows) -> list[Sequence[int]]:
    """Rows of ids, at least one."""
    given = rows.tolist() if isinstance(rows, Tensor) else rows
    if not is_list(given) or not all(is_list(row) for row in given):
        raise ValueError(f"{name}: expected a list of rows, each a list of ids; put a single row into a list, [row]")
    if not (rows := list(given)):
        raise ValueError(f"{name}: there is no row; give at least one list of ids")
    return rows


def read_row(name: str, row: Iterable[int], vocab: int) -> list[int]:
    """Ids of the vocabulary, at least one."""
    try:
        ids = [index(i) for i in row]
    except TypeError:
        raise ValueError(f"{name}: ids are whole numbers, got {row}; use the tokenizer's, and no text") from None
    if not ids:
        raise ValueError(f"{name}: the row is empty, and a model goes on from at least one id; begin with a start id")
    bad = next((i for i in ids if not 0 <= i < vocab), None)
    if bad is not None:
        raise ValueError(
            f"{name}: id {bad} is outside the vocabulary of {vocab}; ids run from 0 to {vocab - 1}: "
            "use the tokenizer the model was trained with"
        )
    return ids


def is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))
