"""Weights: a table of ours and theirs that serves both ways, since each row's form can be undone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sublayer.nn.model import SingleStack


class Form:
    """How a tensor of ours is made of theirs. Abstract: `split` undoes `join`; neither shares memory with the files."""

    def join(self, pieces: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def split(self, whole: Tensor) -> list[Tensor]:
        raise NotImplementedError


class Same(Form):
    """One tensor, as it is."""

    def join(self, pieces: list[Tensor]) -> Tensor:
        return pieces[0].clone()

    def split(self, whole: Tensor) -> list[Tensor]:
        return [whole.contiguous()]


SAME = Same()


class Transposed(Form):
    """One matrix, stored in × out; a bias is as it is."""

    def join(self, pieces: list[Tensor]) -> Tensor:
        return pieces[0].t().clone(memory_format=torch.contiguous_format)

    def split(self, whole: Tensor) -> list[Tensor]:
        return [self.join([whole])]


@dataclass(frozen=True)
class Stacked(Form):
    """Several tensors, one above the other; `shares` are their heights in proportion."""

    shares: tuple[int, ...]

    def join(self, pieces: list[Tensor]) -> Tensor:
        return torch.cat(pieces)

    def split(self, whole: Tensor) -> list[Tensor]:
        unit = len(whole) // sum(self.shares)
        return [piece.clone() for piece in whole.split([share * unit for share in self.shares])]


@dataclass(frozen=True)
class Row:
    """A module or a parameter of ours, and what it is made of.

    In names of layers {n} is the layer, {s} the sublayer of its attention, {f} that of its feed-forward. A module
    means its weight and bias; one that a model does not have is skipped.
    """

    ours: str
    theirs: str | tuple[str, ...]
    form: Form = SAME


@dataclass(frozen=True)
class Pair:
    """A row written out for one parameter."""

    ours: str
    theirs: tuple[str, ...]
    form: Form


def pairs(rows: Iterable[Row], model: SingleStack) -> list[Pair]:
    """The table written out: one pair for each parameter of the model."""
    names = {name for name, _ in model.named_parameters()}
    found = [pair for row in rows for pair in _write_out(row, len(model.stack.sublayers) // 2) if pair.ours in names]
    assert sorted(pair.ours for pair in found) == sorted(names), names.symmetric_difference(p.ours for p in found)
    return found


def _write_out(row: Row, layers: int) -> Iterator[Pair]:
    theirs = (row.theirs,) if isinstance(row.theirs, str) else row.theirs
    for n in range(layers if "{" in row.ours else 1):
        ours = row.ours.format(n=n, s=2 * n, f=2 * n + 1)
        for suffix in ("", ".weight", ".bias"):
            yield Pair(ours + suffix, tuple(name.format(n=n) + suffix for name in theirs), row.form)


def shapes(table: list[Pair], model: SingleStack) -> dict[str, tuple[int, ...]]:
    """The shape of each of their tensors, from a model that may have no data (on the meta device)."""
    pieces = [(pair, pair.form.split(model.get_parameter(pair.ours))) for pair in table]
    return {name: tuple(x.shape) for pair, xs in pieces for name, x in zip(pair.theirs, xs, strict=True)}


def to_ours(table: list[Pair], theirs: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    return {pair.ours: pair.form.join([theirs[name] for name in pair.theirs]).to(dtype) for pair in table}


def to_theirs(table: list[Pair], model: SingleStack) -> dict[str, Tensor]:
    pieces = [(pair, pair.form.split(model.get_parameter(pair.ours).detach().cpu())) for pair in table]
    return {name: x for pair, xs in pieces for name, x in zip(pair.theirs, xs, strict=True)}
