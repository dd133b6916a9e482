"""Embedding: token ids to vectors of the model's width, with norm and dropout before the first sublayer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import torch
from jaxtyping import Float, Int, Integer
from pydantic import NonNegativeInt
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.config import Config, Rate
from sublayer.nn.linear import DEVIATION
from sublayer.nn.residual.norm import Norm

if TYPE_CHECKING:
    from sublayer.nn.embedding.clusters import Clusters


class Embedding(nn.Module):
    """x = dropout(norm(√D·e(id) + positions + token types)).

    Abstract: each kind defines `look_up`. The model calls `read`, adds positions and types, then `norm_and_drop`.
    """

    class Config(Config, family="embedding"):
        projects: ClassVar[bool] = False
        """Whether vectors of the matrix are projected to the model's width."""

        dropout: Rate = 0.0
        """On the input of the first sublayer."""
        scale: bool = False
        """Multiply token vectors by √dim (Vaswani et al. 2017, section 3.4)."""
        norm: Norm.Config | None = None
        """On the sum of tokens, positions and types (BERT); None: no norm."""
        types: NonNegativeInt = 0
        """Number of token types (BERT's segments), each with a vector of its own."""

        def build(self, vocab: int, dim: int) -> Embedding:
            self.check(vocab, dim)
            return self.owner(self, vocab, dim)

        def check(self, vocab: int, dim: int) -> None:
            """Raise ValueError where it cannot work with these sizes."""

        def params(self, vocab: int, dim: int) -> int:
            self.check(vocab, dim)
            norm = 0 if self.norm is None else self.norm.params(dim)
            return self.token_params(vocab, dim) + self.types * dim + norm

        def token_params(self, vocab: int, dim: int) -> int:
            """Parameters of the token table alone."""
            raise NotImplementedError(f"{type(self).__qualname__} must define params")

        def flops(self, vocab: int, dim: int, length: int) -> int:
            """Matmul work of projections; a lookup is none."""
            return 0

        def matrix_width(self, dim: int) -> int | None:
            """Width of the one matrix over all words that a head may share; None if there is no such matrix."""
            return None

        def clusters(self, vocab: int, dim: int) -> Clusters | None:
            """Its clusters, whose matrices an adaptive softmax may share; None if it has none."""
            return None

    def __init__(self, config: Embedding.Config, vocab: int, dim: int) -> None:
        super().__init__()
        self.config, self.vocab, self.dim = config, vocab, dim
        self.scale = math.sqrt(dim) if config.scale else None
        self.types = table(config.types, dim) if config.types else None
        self.norm = nn.Identity() if config.norm is None else config.norm.build(dim)
        self.drop = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def look_up(self, ids_BL: Int[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        """Token vectors of the model's width. An id outside the vocabulary raises IndexError on the CPU."""
        raise NotImplementedError

    @property
    def matrix(self) -> Float[Tensor, "V E"]:
        """The matrix that a head may share."""
        raise NotImplementedError(f"{type(self).__qualname__} has no one matrix over all words")

    @property
    def cluster_tables(self) -> tuple[nn.ParameterList, nn.ParameterList]:
        """Word matrices and projections of its `clusters`, shaped as `Clusters.words` and `Clusters.projections`."""
        raise NotImplementedError(f"{type(self).__qualname__} has no clusters")

    def leave(self, h_BLD: Float[Tensor, "*BL D"]) -> Float[Tensor, "*BL E"]:
        """Hidden vectors back to the width of the matrix, by the projection transposed."""
        return h_BLD

    def read(self, ids_BL: Integer[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        try:
            x_BLD = self.look_up(ids_BL.long())
        except IndexError:
            bad = first_outside(ids_BL, self.vocab)
            raise ValueError(
                f"ids: token {bad} is outside the vocabulary of {self.vocab}; ids run from 0 to {self.vocab - 1}: "
                "set vocab to the size of the tokenizer, and mark padding by validity, not by an id of its own"
            ) from None
        return x_BLD if self.scale is None else x_BLD * self.scale

    def read_types(self, types_BL: Integer[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        if self.types is None:
            raise ValueError("types: the embedding has no token types; set embedding.types to how many there are")
        try:
            return F.embedding(types_BL.long(), self.types)
        except IndexError:
            bad, known = first_outside(types_BL, len(self.types)), len(self.types)
            raise ValueError(
                f"types: type {bad} is outside the {known} of the embedding; set embedding.types={bad + 1}"
            ) from None

    def norm_and_drop(self, x_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return self.drop(self.norm(x_BLD))


def table(rows: int, wide: int, deviation: float = DEVIATION) -> nn.Parameter:
    """An embedding table with normal initial values."""
    return nn.Parameter(torch.empty(rows, wide).normal_(std=deviation))


def first_outside(ids: Tensor, size: int) -> int:
    """The first id that is not in 0 … size−1; padding of targets, −100, does not count."""
    return int(ids[((ids < 0) | (ids >= size)) & (ids != -100)][0])
