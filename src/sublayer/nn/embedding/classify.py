"""BERT's head for whole rows: one of some classes, chosen by the pooled vector."""

from __future__ import annotations

from jaxtyping import Bool, Float, Integer, Num
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.embedding import cross_entropy
from sublayer.nn.embedding.head import outside
from sublayer.nn.embedding.pooled import PooledHead


class Classify(PooledHead):
    """p(class) = softmax(W dropout(tanh(U h_0 + a)) + b) (Devlin et al. 2019, section 4.1). The vocabulary plays no
    part."""

    class Config(PooledHead.Config, tag="classify"):
        classes: PositiveInt = 2

        @property
        def size(self) -> int:
            return self.classes

    def log_probs(
        self, h_BLD: Float[Tensor, "B L D"], valid_BL: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B C"]:
        return F.log_softmax(self(h_BLD, valid_BL), dim=-1)

    def example_target(
        self, ids_BL: Integer[Tensor, "B L"], valid_BL: Bool[Tensor, "B L"] | None = None
    ) -> Integer[Tensor, " B"]:
        return self.row_sums(ids_BL, valid_BL) % self.classes

    def loss(
        self,
        h_BLD: Float[Tensor, "B L D"],
        target: Num[Tensor, " B"],
        weights: Num[Tensor, " B"] | None = None,
        smoothing: float = 0.0,
        valid_BL: Bool[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, ""]:
        """Mean cross entropy over the rows; see `Head.loss`."""
        try:
            return cross_entropy.of_scores(self(h_BLD, valid_BL), target.long(), weights, smoothing)
        except IndexError:
            raise outside(target, self.classes) from None
