"""A label for each token, from a vocabulary of its own."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor

from sublayer.nn.embedding.base import Embedding, table
from sublayer.nn.embedding.head import Head
from sublayer.nn.embedding.linear import MatrixHead


class Label(MatrixHead):
    """s = W h + b for every token; labels are not words, so the matrix is not shared."""

    class Config(Head.Config, tag="label"):
        speaks: ClassVar[bool] = False
        classes: PositiveInt = 2
        bias: bool = False

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            return self.classes * dim + (self.classes if self.bias else 0)

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            return 2 * length * dim * self.classes

    def __init__(self, config: Config, vocab: int, dim: int, embedding: Embedding) -> None:
        super().__init__(config.classes, config.bias)
        self.weight_CD = table(config.classes, dim)

    @property
    def matrix(self) -> Float[Tensor, "C D"]:
        return self.weight_CD
