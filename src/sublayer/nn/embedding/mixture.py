"""Mixture of softmaxes: several distributions over the words, averaged by weights that depend on the context."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.embedding.base import Embedding, table
from sublayer.nn.embedding.head import Head
from sublayer.nn.embedding.tied import shared_width
from sublayer.nn.linear import linear


class MixtureOfSoftmaxes(Head):
    """p = Σ_c π_c softmax(W h_c + b), π = softmax(W_π h), h_c = tanh(W_c h) (Yang et al. 2018, section 2.4).

    log p is not linear in h, so its matrix over contexts may have a rank above D. `forward` gives log-probabilities.
    """

    class Config(Head.Config, tag="mixture"):
        components: PositiveInt = 4
        bias: bool = False
        """On each word's score, the same in every component."""
        tied: bool = False
        """Whether W is the embedding's."""

        def check(self, vocab: int, dim: int, embedding: Embedding.Config) -> None:
            if self.tied and (shared_width("mixture", dim, embedding) != dim or embedding.projects):
                raise ValueError(
                    f"head: mixture shares a matrix of the model's width {dim}, and a {embedding.tag} embedding's is "
                    "projected to it; set head.tied=false, or use embedding token"
                )

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            self.check(vocab, dim, embedding)
            words = (0 if self.tied else vocab * dim) + (vocab if self.bias else 0)
            return words + self.components * (dim * dim + dim)

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            return 2 * length * self.components * dim * (1 + dim + vocab)

    def __init__(self, config: Config, vocab: int, dim: int, embedding: Embedding) -> None:
        components = config.components
        super().__init__(vocab, embedding if config.tied else None, cells=components * vocab)
        self.components = components
        self.prior = linear(dim, components, bias=False)
        self.enter = linear(dim, components * dim, bias=False)
        self.weight_VD = None if config.tied else table(vocab, dim)
        self.bias_V = nn.Parameter(torch.zeros(vocab)) if config.bias else None

    def forward(
        self, h_BLD: Float[Tensor, "*BL D"], valid_BL: Bool[Tensor, "*BL"] | None = None
    ) -> Float[Tensor, "*BL V"]:
        weight_VD = self.embedding.matrix if self.weight_VD is None else self.weight_VD
        log_prior_BLC = F.log_softmax(self.prior(h_BLD), dim=-1)
        h_BLCD = self.enter(h_BLD).tanh().unflatten(-1, (self.components, -1))
        log_p_BLCV = F.log_softmax(F.linear(h_BLCD, weight_VD, self.bias_V), dim=-1)
        return torch.logsumexp(log_prior_BLC[..., None] + log_p_BLCV, dim=-2)

    def log_probs(
        self, h_BLD: Float[Tensor, "*BL D"], valid_BL: Bool[Tensor, "*BL"] | None = None
    ) -> Float[Tensor, "*BL V"]:
        return self(h_BLD, valid_BL)
