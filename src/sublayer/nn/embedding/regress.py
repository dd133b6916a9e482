"""Numbers for a whole row: Hugging Face's BERT with one label."""

from __future__ import annotations

from jaxtyping import Bool, Float, Integer, Num
from pydantic import PositiveInt
from torch import Tensor

from sublayer.nn.embedding.pooled import PooledHead


class Regress(PooledHead):
    """y = W dropout(tanh(U h_0 + a)) + b, trained by the mean squared error. The vocabulary plays no part.

    Targets are (B, outputs), or (B,) of one output. There is nothing to smooth, so smoothing is refused.
    """

    class Config(PooledHead.Config, tag="regress"):
        has_probabilities = False
        outputs: PositiveInt = 1
        """How many numbers a row has."""

        @property
        def size(self) -> int:
            return self.outputs

    def log_probs(
        self, h_BLD: Float[Tensor, "B L D"], valid_BL: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B C"]:
        raise ValueError("head: regress gives numbers, which have no probabilities; call the head itself")

    def example_target(
        self, ids_BL: Integer[Tensor, "B L"], valid_BL: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B C"]:
        row_B = self.row_sums(ids_BL, valid_BL) % 7 / 7 - 0.5
        return row_B[:, None].expand(-1, self.classes)

    def loss(
        self,
        h_BLD: Float[Tensor, "B L D"],
        target: Num[Tensor, "B ..."],
        weights: Num[Tensor, " B"] | None = None,
        smoothing: float = 0.0,
        valid_BL: Bool[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, ""]:
        """Mean squared error over rows and outputs, rows by weight where weights are given."""
        if smoothing:
            raise ValueError(f"smoothing={smoothing}: head regress has no classes to spread a target over; set it to 0")
        y_BC = self(h_BLD, valid_BL)
        if target.numel() != y_BC.numel() or len(target) != len(y_BC):
            raise ValueError(
                f"target: expected {tuple(y_BC.shape)}, {self.classes} numbers a row, got {tuple(target.shape)}"
            )
        error_B = (y_BC - target.to(y_BC.dtype).reshape(y_BC.shape)).square().mean(1)
        return error_B.mean() if weights is None else (error_B * weights).sum() / weights.sum()
