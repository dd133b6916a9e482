"""Clusters: a vocabulary sorted by frequency, cut into bands, the rarer the narrower."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator
from torch import Tensor, nn

from sublayer.nn.embedding.base import table


def _rising(cutoffs: tuple[int, ...]) -> tuple[int, ...]:
    if not cutoffs or any(low >= high for low, high in zip((0, *cutoffs), cutoffs, strict=False)):
        raise ValueError(f"cutoffs are where clusters end, rising from above 0, got {cutoffs}; give e.g. [2000, 10000]")
    return cutoffs


Cutoffs = Annotated[tuple[int, ...], AfterValidator(_rising)]
"""Where each cluster but the last ends; the last ends with the vocabulary."""


@dataclass(frozen=True)
class Clusters:
    """Cluster c has word vectors of width // factor^c.

    With factor 1 all clusters have one width, so that one matrix and one projection serve all words of an embedding;
    there is no projection where that width is the model's. A head that does not share the embedding's projection has
    one for each cluster even then, as in Transformer-XL's code.
    """

    vocab: int
    dim: int
    cutoffs: tuple[int, ...]
    factor: int
    width: int

    @property
    def spans(self) -> list[tuple[int, int]]:
        return list(zip((0, *self.cutoffs), (*self.cutoffs, self.vocab), strict=True))

    @property
    def sizes(self) -> list[int]:
        return [end - start for start, end in self.spans]

    @property
    def widths(self) -> list[int]:
        return [self.width // self.factor**c for c in range(len(self.cutoffs) + 1)]

    @property
    def words(self) -> list[tuple[int, int]]:
        """Shapes of the matrices of words."""
        if self.factor == 1:
            return [(self.vocab, self.width)]
        return list(zip(self.sizes, self.widths, strict=True))

    @property
    def projections(self) -> list[tuple[int, int]]:
        """Shapes of the projections, D × a cluster's width."""
        if self.factor == 1:
            return [] if self.width == self.dim else [(self.dim, self.width)]
        return [(self.dim, width) for width in self.widths]

    @property
    def own_projections(self) -> list[tuple[int, int]]:
        """Shapes of projections that are not the embedding's: one for each cluster, also where all have one width."""
        return [(self.dim, width) for width in self.widths] if self.projections else []

    def check(self, where: str) -> None:
        """Raise ValueError where the sizes do not fit; `where` names the part that was to be built."""
        if self.cutoffs[-1] >= self.vocab:
            raise ValueError(
                f"{where}.cutoffs: the last cluster starts at {self.cutoffs[-1]}, the vocabulary ends at {self.vocab}; "
                f"keep cutoffs below {self.vocab}"
            )
        if self.widths[-1] == 0:
            raise ValueError(
                f"{where}.factor: width {self.width} divided by {self.factor} once a cluster leaves none for cluster "
                f"{len(self.cutoffs)}; use a smaller factor or fewer cutoffs"
            )


def count(shapes: Iterable[tuple[int, int]]) -> int:
    return sum(rows * wide for rows, wide in shapes)


def tables(shapes: Iterable[tuple[int, int]]) -> nn.ParameterList:
    return nn.ParameterList(table(rows, wide) for rows, wide in shapes)


def rows_of(words: nn.ParameterList, clusters: Clusters) -> Sequence[Tensor]:
    """The word matrix of each cluster. One split of a common matrix: slices would each fill a gradient of its size."""
    return words[0].split(clusters.sizes) if len(words) == 1 else list(words)


def maps_of(projections: nn.ParameterList, clusters: Clusters) -> Sequence[Tensor | None]:
    """The projection of each cluster; None where there is none."""
    each = len(clusters.sizes)
    if len(projections) <= 1:
        return [projections[0] if len(projections) else None] * each
    return list(projections)
