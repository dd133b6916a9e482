"""BERT's head for answers in the text: where they start and where they end."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Integer, Num
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.embedding import cross_entropy
from sublayer.nn.embedding.base import Embedding
from sublayer.nn.embedding.head import Head, outside
from sublayer.nn.linear import linear


class SpanHead(Head):
    """p(start = i) = softmax_i(S·h_i), p(end = i) = softmax_i(E·h_i) (Devlin et al. 2019, section 4.2).

    Scores are over positions, not words, so the vocabulary plays no part; padding has probability 0. There is no bias,
    as in the paper; the one in the authors' code is the same for all positions, so that the softmax cancels it.
    """

    class Config(Head.Config, tag="span"):
        speaks = False
        over_positions = True

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            return 2 * dim

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            return 2 * length * dim * 2

    def __init__(self, config: Config, vocab: int, dim: int, embedding: Embedding) -> None:
        super().__init__(2)
        self.output = linear(dim, 2, bias=False)

    def forward(
        self, h_BLD: Float[Tensor, "B L D"], valid_BL: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L 2"]:
        scores_BL2 = self.output(h_BLD)
        return scores_BL2 if valid_BL is None else scores_BL2.masked_fill(_padding(valid_BL)[..., None], -torch.inf)

    def log_probs(
        self, h_BLD: Float[Tensor, "B L D"], valid_BL: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L 2"]:
        """Over positions: each of the two sums to 1 along L."""
        return F.log_softmax(self(h_BLD, valid_BL), dim=1)

    def example_target(
        self, ids_BL: Integer[Tensor, "B L"], valid_BL: Bool[Tensor, "B L"] | None = None
    ) -> Integer[Tensor, "B 2"]:
        """The first and the last token of each row."""
        valid_BL = torch.ones_like(ids_BL, dtype=torch.bool) if valid_BL is None else valid_BL
        last = ids_BL.shape[1] - 1
        return torch.stack([valid_BL.int().argmax(1), last - valid_BL.flip(1).int().argmax(1)], dim=1)

    def loss(
        self,
        h_BLD: Float[Tensor, "B L D"],
        target: Num[Tensor, "B 2"],
        weights: Num[Tensor, " B"] | None = None,
        smoothing: float = 0.0,
        valid_BL: Bool[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, ""]:
        """Mean of the cross entropies of start and end; see `Head.loss`. Smoothing spreads over the valid positions."""
        target = target.long()
        try:
            if valid_BL is None:
                scores_BL2 = self(h_BLD)
                start, end = (
                    cross_entropy.of_scores(scores_BL2[..., k], target[:, k], weights, smoothing) for k in range(2)
                )
            else:
                log_p_BL2, padding_BL = self.log_probs(h_BLD, valid_BL), _padding(valid_BL)
                start, end = (
                    _masked_loss(log_p_BL2[..., k], padding_BL, target[:, k], weights, smoothing) for k in range(2)
                )
        except IndexError:
            raise outside(target, h_BLD.shape[1]) from None
        return (start + end) / 2


def _padding(valid_BL: Bool[Tensor, "B L"]) -> Bool[Tensor, "B L"]:
    """Which positions are padding. A row of nothing else counts as valid, so that its scores are numbers, not NaN."""
    return ~valid_BL & valid_BL.any(1, keepdim=True)


def _masked_loss(
    log_p_BL: Tensor, padding_BL: Tensor, target_B: Tensor, weights_B: Tensor | None, smoothing: float
) -> Tensor:
    """Cross entropy over the positions that are not padding: `F.cross_entropy` would smooth over padding too."""
    loss_B = F.nll_loss(log_p_BL, target_B, reduction="none")
    if loss_B.isinf().any():
        raise ValueError("target: an answer starts or ends on padding; targets are positions where valid_BL is True")
    if smoothing:
        mean_B = log_p_BL.masked_fill(padding_BL, 0).sum(1) / (~padding_BL).sum(1)
        loss_B = torch.where(target_B == -100, 0, (1 - smoothing) * loss_B - smoothing * mean_B)
    return cross_entropy.reduce(loss_B, target_B, weights_B)
