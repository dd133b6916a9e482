"""Narrow word vectors, widened by one matrix: the vocabulary no longer pays for the model's width."""

from __future__ import annotations

from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.embedding.base import Embedding, table
from sublayer.nn.linear import linear


class FactorisedEmbedding(Embedding):
    """e(id) = P W[id], W of V×E, P of D×E (Lan et al. 2020, section 3.1; OPT-350m's word_embed_proj_dim)."""

    class Config(Embedding.Config, tag="factorised"):
        projects = True
        rank: PositiveInt = 128
        """E, the width of a word's own vector."""

        def token_params(self, vocab: int, dim: int) -> int:
            return (vocab + dim) * self.rank

        def flops(self, vocab: int, dim: int, length: int) -> int:
            return 2 * length * self.rank * dim

        def matrix_width(self, dim: int) -> int:
            return self.rank

    def __init__(self, config: Config, vocab: int, dim: int) -> None:
        super().__init__(config, vocab, dim)
        self.weight_VE = table(vocab, config.rank)
        self.project = linear(config.rank, dim, bias=False)

    @property
    def matrix(self) -> Float[Tensor, "V E"]:
        return self.weight_VE

    def leave(self, h_BLD: Float[Tensor, "*BL D"]) -> Float[Tensor, "*BL E"]:
        return h_BLD @ self.project.weight

    def look_up(self, ids_BL: Int[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        return self.project(F.embedding(ids_BL, self.weight_VE))
