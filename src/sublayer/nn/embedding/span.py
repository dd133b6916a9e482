"""BERT's head for answers in the text: where they start and where they end."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float, Integer, Num
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.embedding import cross_entropy
from sublayer.nn.embedding.base import Embedding
from sublayer.nn.embedding.head import Head, outside
from sublayer.nn.linear import linear


class Span(Head):
    """p(start = i) = softmax_i(S·h_i), p(end = i) = softmax_i(E·h_i) (Devlin et al. 2019, section 4.2).

    Scores are over places, not words, so the vocabulary plays no part. There is no bias, as in the paper; the one in
    the authors' code is the same for all places, so that the softmax cancels it.
    """

    class Config(Head.Config, tag="span"):
        speaks: ClassVar[bool] = False

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            return 2 * dim

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            return 2 * length * dim * 2

    def __init__(self, config: Config, vocab: int, dim: int, embedding: Embedding) -> None:
        super().__init__(2)
        self.output = linear(dim, 2, bias=False)

    def forward(self, h_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L 2"]:
        return self.output(h_BLD)

    def log_probs(self, h_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L 2"]:
        """Over places: each of the two sums to 1 along L."""
        return F.log_softmax(self(h_BLD), dim=1)

    def loss(
        self,
        h_BLD: Float[Tensor, "B L D"],
        target: Integer[Tensor, "B 2"],
        weights: Num[Tensor, " B"] | None = None,
        smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        """Mean of the cross entropies of start and end; see `Head.loss`."""
        scores_BL2, target = self(h_BLD), target.long()
        try:
            start, end = (
                cross_entropy.of_scores(scores_BL2[..., k], target[:, k], weights, smoothing) for k in range(2)
            )
        except IndexError:
            raise outside(target, h_BLD.shape[1]) from None
        return (start + end) / 2
