"""Head: hidden vectors to scores, to probabilities, and to the loss of training."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int, Integer, Num
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from sublayer.nn.config import Config
from sublayer.nn.embedding import cross_entropy
from sublayer.nn.embedding.base import Embedding, first_outside


class Head(nn.Module):
    """Abstract: a kind gives `forward`; `log_probs` and `loss` follow from it, and are overridden where it pays.

    `valid_BL` is False on padding, None where there is none. A head that scores each position by itself leaves padded
    targets out of its loss; one that pools, or compares positions, must not look at padding at all.

    What a head shares with the embedding stays the embedding's: it is registered, saved and counted there alone.
    """

    class Config(Config, family="head"):
        pools: ClassVar[bool] = False
        """Whether it gives one answer per row, not one per position."""
        over_positions: ClassVar[bool] = False
        """Whether its classes are the positions of the row, so that probabilities sum to 1 along the length."""
        speaks: ClassVar[bool] = True
        """Whether its classes are the ids of the vocabulary."""
        has_probabilities: ClassVar[bool] = True
        """Whether its answer is one of some classes, so that `log_probs` exists; False for a regression."""
        flops_depend_on_data: ClassVar[bool] = False
        """Whether the work of its loss depends on the targets, so that `flops` is a lower bound."""

        def build(self, vocab: int, dim: int, embedding: Embedding) -> Head:
            self.check(vocab, dim, embedding.config)
            return self.owner(self, vocab, dim, embedding)

        def check(self, vocab: int, dim: int, embedding: Embedding.Config) -> None:
            """Raise ValueError where it cannot go with these sizes or that embedding."""

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            """Without what is shared with the embedding."""
            raise NotImplementedError(f"{type(self).__qualname__} must define params")

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            """Matmul work of one row of `length` tokens."""
            raise NotImplementedError(f"{type(self).__qualname__} must define flops")

    def __init__(self, classes: int, embedding: Embedding | None = None, cells: int | None = None) -> None:
        """`cells`: scores formed for each token, where that is not one a class."""
        super().__init__()
        self.classes, self.cells = classes, cells or classes
        # A plain reference: the model owns the embedding, and a module registered twice would be saved twice.
        object.__setattr__(self, "embedding", embedding)

    embedding: Embedding

    def forward(
        self, h_BLD: Float[Tensor, "*BL D"], valid_BL: Bool[Tensor, "*BL"] | None = None
    ) -> Float[Tensor, "*BL V"]:
        """Scores; normalised already where the kind must normalise to have any."""
        raise NotImplementedError

    def log_probs(
        self, h_BLD: Float[Tensor, "*BL D"], valid_BL: Bool[Tensor, "*BL"] | None = None
    ) -> Float[Tensor, "*BL V"]:
        return F.log_softmax(self(h_BLD, valid_BL), dim=-1)

    def example_target(
        self, ids_BL: Integer[Tensor, "B L"], valid_BL: Bool[Tensor, "B L"] | None = None
    ) -> Num[Tensor, "B ..."]:
        """A target that `loss` accepts for these ids. A row's target depends on its valid ids alone, and a batch of all
        ids asks for all classes: what a check of any head needs."""
        target_BL = (ids_BL.long() + 1) % self.classes
        return target_BL if valid_BL is None else target_BL.masked_fill(~valid_BL, -100)

    def loss(
        self,
        h_BLD: Float[Tensor, "*BL D"],
        target: Num[Tensor, "*BL"],
        weights: Num[Tensor, "*BL"] | None = None,
        smoothing: float = 0.0,
        valid_BL: Bool[Tensor, "*BL"] | None = None,
    ) -> Float[Tensor, ""]:
        """Mean cross entropy in nats over the targets that are not −100, by weight where weights are given.

        smoothing: how much of each target is spread evenly over all classes (Szegedy et al. 2016, section 7).
        valid_BL: targets where it is False do not count.
        """
        target = target if valid_BL is None else target.masked_fill(~valid_BL, -100)
        target_N = target.reshape(-1).long()
        weights_N = None if weights is None else weights.reshape(-1)
        try:
            return self.mean_loss(h_BLD.reshape(-1, h_BLD.shape[-1]), target_N, weights_N, smoothing)
        except IndexError:
            raise outside(target_N, self.classes) from None

    def nats(self, h_BLD: Float[Tensor, "*BL D"], target: Integer[Tensor, "*BL"]) -> Float[Tensor, "*BL"]:
        """−ln p(target) of each token, in fp32 at least; 0 where the target is −100. To measure, not to train."""
        target_N = target.reshape(-1).long()
        try:
            return self.each_loss(h_BLD.reshape(-1, h_BLD.shape[-1]), target_N).view(target.shape)
        except IndexError:
            raise outside(target_N, self.classes) from None

    def each_loss(self, h_ND: Float[Tensor, "N D"], target_N: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        """`nats` of tokens in a row, some at a time where their scores are too many."""
        return cross_entropy.each(self, self.cells, h_ND, target_N)

    def mean_loss(
        self, h_ND: Float[Tensor, "N D"], target_N: Int[Tensor, " N"], weights_N: Tensor | None, smoothing: float
    ) -> Float[Tensor, ""]:
        """`loss` of tokens in a row. Too many scores are formed for some tokens at a time, and again for backward."""
        rows = max(1, cross_entropy.LARGE // self.cells)
        if len(h_ND) <= rows:
            return cross_entropy.of_scores(self(h_ND), target_N, weights_N, smoothing)
        loss_N = torch.cat(
            [
                checkpoint(self._each, h, target, smoothing, use_reentrant=False)
                for h, target in zip(h_ND.split(rows), target_N.split(rows), strict=True)
            ]
        )
        return cross_entropy.reduce(loss_N, target_N, weights_N)

    def _each(self, h_ND: Tensor, target_N: Tensor, smoothing: float) -> Tensor:
        return F.cross_entropy(self(h_ND), target_N, reduction="none", label_smoothing=smoothing)


def outside(target: Tensor, classes: int) -> ValueError:
    return ValueError(
        f"target: {first_outside(target, classes)} is outside the {classes} classes of the head; "
        f"targets run from 0 to {classes - 1}, and -100 marks what is not to be predicted"
    )
