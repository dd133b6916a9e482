"""Scores by one matrix over all words."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.embedding import cross_entropy
from sublayer.nn.embedding.base import Embedding, table
from sublayer.nn.embedding.head import Head


class MatrixHead(Head):
    """s = W f(h) + b. Abstract: a kind gives W and f."""

    def __init__(self, vocab: int, bias: bool, embedding: Embedding | None = None) -> None:
        super().__init__(vocab, embedding)
        self.bias_V = nn.Parameter(torch.zeros(vocab)) if bias else None

    @property
    def matrix(self) -> Float[Tensor, "V E"]:
        return self.embedding.matrix

    def features(self, h_BLD: Float[Tensor, "*BL D"]) -> Float[Tensor, "*BL E"]:
        return h_BLD

    def forward(
        self, h_BLD: Float[Tensor, "*BL D"], valid_BL: Bool[Tensor, "*BL"] | None = None
    ) -> Float[Tensor, "*BL V"]:
        return F.linear(self.features(h_BLD), self.matrix, self.bias_V)

    def mean_loss(
        self, h_ND: Float[Tensor, "N D"], target_N: Int[Tensor, " N"], weights_N: Tensor | None, smoothing: float
    ) -> Float[Tensor, ""]:
        h_NE = self.features(h_ND)
        return cross_entropy.of_linear(h_NE, self.matrix, self.bias_V, target_N, weights_N, smoothing)


class LinearHead(MatrixHead):
    """s = W h + b, with a matrix of its own."""

    class Config(Head.Config, tag="linear"):
        bias: bool = False

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            return vocab * dim + (vocab if self.bias else 0)

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            return 2 * length * dim * vocab

    def __init__(self, config: Config, vocab: int, dim: int, embedding: Embedding) -> None:
        super().__init__(vocab, config.bias)
        self.weight_VD = table(vocab, dim)

    @property
    def matrix(self) -> Float[Tensor, "V D"]:
        return self.weight_VD
