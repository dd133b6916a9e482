"""Feature maps: what a query or key becomes before it meets the others."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor


class FeatureMap:
    """Abstract: φ of queries and keys, in any form of the recurrence."""

    native: ClassVar[str | None] = None
    """Its name in features.h, whose C forms features within a chunk; None: PyTorch forms those of all tokens."""
    exponents: ClassVar[bool] = False
    """Whether these are exponents. The recurrence takes their exponentials, over the largest so far: without one they
    would overflow, and by one over all keys the future would be seen."""
    floor: ClassVar[float] = 0.0
    """What is added to each feature."""

    def __init__(self, w_GFK: Tensor | None = None) -> None:
        """w: vectors by which queries and keys are multiplied, of each key head or, G = 1, of all."""
        self.w_GFK = w_GFK

    def __call__(self, x_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L F"]:
        raise NotImplementedError

    def products(self, x_BHLK: Tensor) -> Tensor:
        """w · x, by the vectors of each head's key head."""
        assert self.w_GFK is not None
        if len(self.w_GFK) == 1:
            return x_BHLK @ self.w_GFK[0].T
        return x_BHLK @ self.w_GFK.repeat_interleave(x_BHLK.shape[1] // len(self.w_GFK), dim=0).transpose(-1, -2)
