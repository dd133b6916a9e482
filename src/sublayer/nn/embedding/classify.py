"""BERT's head for whole rows: the first token answers for all."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float, Integer, Num
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.config import Rate
from sublayer.nn.embedding import cross_entropy
from sublayer.nn.embedding.base import Embedding
from sublayer.nn.embedding.head import Head, outside
from sublayer.nn.linear import linear


class Classify(Head):
    """s = W dropout(tanh(U h_0 + a)) + b (Devlin et al. 2019, section 3.1 and 4.1). The vocabulary plays no part."""

    class Config(Head.Config, tag="classify"):
        pools: ClassVar[bool] = True
        speaks: ClassVar[bool] = False
        classes: PositiveInt = 2
        dropout: Rate = 0.0
        """On the pooled vector."""

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            return dim * dim + dim + dim * self.classes + self.classes

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            return 2 * dim * (dim + self.classes)

    def __init__(self, config: Config, vocab: int, dim: int, embedding: Embedding) -> None:
        super().__init__(config.classes)
        self.pool = linear(dim, dim, bias=True)
        self.drop = nn.Dropout(config.dropout) if config.dropout else nn.Identity()
        self.output = linear(dim, config.classes, bias=True)

    def forward(self, h_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B C"]:
        return self.output(self.drop(self.pool(h_BLD[:, 0]).tanh()))

    def log_probs(self, h_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B C"]:
        return F.log_softmax(self(h_BLD), dim=-1)

    def loss(
        self,
        h_BLD: Float[Tensor, "B L D"],
        target: Integer[Tensor, " B"],
        weights: Num[Tensor, " B"] | None = None,
        smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        """Mean cross entropy over the rows; see `Head.loss`."""
        try:
            return cross_entropy.of_scores(self(h_BLD), target.long(), weights, smoothing)
        except IndexError:
            raise outside(target, self.classes) from None
