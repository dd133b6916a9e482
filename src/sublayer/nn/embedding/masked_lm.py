"""BERT's head for masked words: one more hidden layer before the tied matrix."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from sublayer.nn.embedding.base import Embedding
from sublayer.nn.embedding.head import Head
from sublayer.nn.embedding.linear import MatrixHead
from sublayer.nn.embedding.tied import shared_width
from sublayer.nn.feedforward.activation import ACTIVATIONS, Activation
from sublayer.nn.linear import linear
from sublayer.nn.residual.norm import LayerNorm, Norm


class MaskedLM(MatrixHead):
    """s = W norm(g(U h + a)) + b, g GELU and W the embedding's (Devlin et al. 2019; U and a are in their code only).

    Of a factorised embedding, U goes from the model's width to the matrix's (ALBERT).
    """

    class Config(Head.Config, tag="masked_lm"):
        added = frozenset({"activation"})

        norm: Norm.Config = LayerNorm.Config(eps=1e-12)
        activation: Activation = "gelu"

        def check(self, vocab: int, dim: int, embedding: Embedding.Config) -> None:
            shared_width("masked_lm", dim, embedding)

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            width = shared_width("masked_lm", dim, embedding)
            return dim * width + width + self.norm.params(width) + vocab

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            return 2 * length * shared_width("masked_lm", dim, embedding) * (dim + vocab)

    def __init__(self, config: Config, vocab: int, dim: int, embedding: Embedding) -> None:
        super().__init__(vocab, bias=True, embedding=embedding)
        width = shared_width("masked_lm", dim, embedding.config)
        self.enter = linear(dim, width, bias=True)
        self.norm = config.norm.build(width)
        self.activation = ACTIVATIONS[config.activation]

    def features(self, h_BLD: Float[Tensor, "*BL D"]) -> Float[Tensor, "*BL E"]:
        return self.norm(self.activation(self.enter(h_BLD)))
