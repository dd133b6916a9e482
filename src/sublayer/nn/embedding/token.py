"""One trained vector per word."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.embedding.base import Embedding, table
from sublayer.nn.linear import DEVIATIONS, Spread


class TokenEmbedding(Embedding):
    """e(id) = W[id]."""

    class Config(Embedding.Config, tag="token"):
        spread: Spread = "fixed"
        """Initial deviation of the vectors: 0.02, or 1, with which they dominate the residual stream for long. A
        tied head needs 0.02."""

        def token_params(self, vocab: int, dim: int) -> int:
            return vocab * dim

        def matrix_width(self, dim: int) -> int:
            return dim

    def __init__(self, config: Config, vocab: int, dim: int) -> None:
        super().__init__(config, vocab, dim)
        self.weight_VD = table(vocab, dim, DEVIATIONS[config.spread])

    @property
    def matrix(self) -> Float[Tensor, "V D"]:
        return self.weight_VD

    def look_up(self, ids_BL: Int[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        return F.embedding(ids_BL, self.weight_VD)
