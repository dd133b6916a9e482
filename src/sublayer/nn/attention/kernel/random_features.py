"""Random matrices of kernels that estimate softmax by features: drawn from a seed, and drawn again in training."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.config import Count


def gaussian(features: int, size: int, generator: torch.Generator) -> Float[Tensor, "F K"]:
    """Rows of independent normal numbers."""
    return torch.randn(features, size, generator=generator, dtype=torch.float64, device="cpu")


def orthogonal(features: int, size: int, generator: torch.Generator) -> Float[Tensor, "F K"]:
    """Rows as long as those of `gaussian`, and at right angles to the others of their block of K.

    The sign of R's diagonal is taken out of Q: otherwise Q is not uniform, and estimates with it are biased.
    """
    blocks = []
    for _ in range(-(-features // size)):
        q_KK, r_KK = torch.linalg.qr(gaussian(size, size, generator))
        blocks.append((q_KK * r_KK.diagonal().sign()).T)
    lengths_F1 = gaussian(features, size, generator).norm(dim=1, keepdim=True)
    return torch.cat(blocks)[:features] * lengths_F1


class RandomMatrix(nn.Module):
    """(F, K) random numbers, which checkpoints hold; drawn again after every `redraw` steps of training, never in
    evaluation. The draw of a step depends on the seed and the step alone, so that a resumed run draws the same."""

    w_FK: Tensor

    def __init__(self, features: Count, size: Count, redraw: int | None, independent: bool = False) -> None:
        super().__init__()
        self.shape, self.redraw, self.draw = (features, size), redraw, gaussian if independent else orthogonal
        self.seed = int(torch.randint(2**31, (), device="cpu"))
        self.register_buffer("w_FK", torch.empty(features, size))
        self.after_step(0)

    def after_step(self, step: int) -> None:
        """Called by the trainer, with the number of steps taken."""
        if step == 0 or (self.redraw and step % self.redraw == 0):
            generator = torch.Generator().manual_seed(self.seed * 2**31 + step)
            self.w_FK.copy_(self.draw(*self.shape, generator))

    def forward(self) -> Float[Tensor, "F K"]:
        return self.w_FK
