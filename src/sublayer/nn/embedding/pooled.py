"""BERT's pooled vector of a whole row: its first token's, through one hidden layer."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from sublayer.nn.config import Rate
from sublayer.nn.embedding.base import Embedding
from sublayer.nn.embedding.head import Head
from sublayer.nn.linear import linear


class PooledHead(Head):
    """s = W dropout(tanh(U h_0 + a)) + b, h_0 the row's first token that is not padding (Devlin et al. 2019, section
    3.1 and 4.1). Abstract: a kind gives the loss.

    Deviations from the authors' code: there h_0 is at position 0 even where a row is padded on the left.
    """

    class Config(Head.Config):
        pools = True
        speaks = False
        dropout: Rate = 0.0
        """On the pooled vector."""

        @property
        def size(self) -> int:
            """How many numbers it gives for a row."""
            raise NotImplementedError

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            return dim * dim + dim + dim * self.size + self.size

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            return 2 * dim * (dim + self.size)

    def __init__(self, config: Config, vocab: int, dim: int, embedding: Embedding) -> None:
        super().__init__(config.size)
        self.pool = linear(dim, dim, bias=True)
        self.drop = nn.Dropout(config.dropout) if config.dropout else nn.Identity()
        self.output = linear(dim, config.size, bias=True)

    def forward(
        self, h_BLD: Float[Tensor, "B L D"], valid_BL: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B C"]:
        return self.output(self.drop(self.pool(first_valid(h_BLD, valid_BL)).tanh()))

    def row_sums(self, ids_BL: Integer[Tensor, "B L"], valid_BL: Bool[Tensor, "B L"] | None) -> Integer[Tensor, " B"]:
        """Of each row's ids without padding: from which example targets are made."""
        return (ids_BL if valid_BL is None else ids_BL.masked_fill(~valid_BL, 0)).long().sum(1)


def first_valid(h_BLD: Float[Tensor, "B L D"], valid_BL: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B D"]:
    """Each row's vector at its first token that is not padding; of a row that is all padding, at position 0."""
    if valid_BL is None:
        return h_BLD[:, 0]
    # argmax gives the first of equals
    first_B = valid_BL.int().argmax(1)
    return h_BLD[torch.arange(len(h_BLD), device=h_BLD.device), first_B]
