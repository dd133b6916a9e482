"""Scores by the embedding's own matrix."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from sublayer.nn.embedding.base import Embedding
from sublayer.nn.embedding.head import Head
from sublayer.nn.embedding.linear import MatrixHead
from sublayer.nn.linear import linear


class TiedHead(MatrixHead):
    """s = W h + b, W the embedding's (Press & Wolf 2017). Of a factorised embedding, s = W P h + b."""

    class Config(Head.Config, tag="tied"):
        bias: bool = False
        projection: Literal["own", "shared"] = "own"
        """Of a factorised embedding: whether P is the head's own (OPT), or the embedding's, transposed."""

        def check(self, vocab: int, dim: int, embedding: Embedding.Config) -> None:
            shared_width("tied", dim, embedding)

        def rank(self, dim: int, embedding: Embedding.Config) -> int:
            """Width the hidden vector is projected to; 0 if it is not."""
            return shared_width("tied", dim, embedding) if embedding.projects else 0

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            self.check(vocab, dim, embedding)
            own = self.rank(dim, embedding) * dim if self.projection == "own" else 0
            return own + (vocab if self.bias else 0)

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            rank = self.rank(dim, embedding)
            return 2 * length * (rank * dim + shared_width("tied", dim, embedding) * vocab)

    def __init__(self, config: Config, vocab: int, dim: int, embedding: Embedding) -> None:
        super().__init__(vocab, config.bias, embedding)
        rank = config.rank(dim, embedding.config)
        self.project = linear(dim, rank, bias=False) if rank and config.projection == "own" else None

    def features(self, h_BLD: Float[Tensor, "*BL D"]) -> Float[Tensor, "*BL E"]:
        return self.embedding.leave(h_BLD) if self.project is None else self.project(h_BLD)


def shared_width(head: str, dim: int, embedding: Embedding.Config) -> int:
    """Width of the matrix a head is to share; ValueError where there is none."""
    width = embedding.matrix_width(dim)
    if width is None:
        raise ValueError(
            f"head: {head} shares one matrix over all words, and a {embedding.tag} embedding has no such matrix; "
            "use head adaptive_softmax with tied=true, head linear, or embedding token"
        )
    return width
