"""Compressors with parameters, and the losses that train these and nothing else (Rae et al. 2019, section 3.3)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.config import Positive
from sublayer.nn.linear import linear
from sublayer.nn.memory.compressor.base import Compressor, Eviction


class Learned(Compressor):
    """Abstract: each slot is a map of its `rate` tokens side by side, after whatever a kind does to the tokens.

    "attention": ‖attn(h, old) − attn(h, new)‖², content-based attention of the segment's queries h on the tokens and on
    the slots made of them (Algorithm 2). "auto_encoding": ‖old − g(new)‖², g a linear map of its own. Both are means of
    squares, summed over layers; the paper writes norms. All but the slots is cut from the graph, and so is what the
    model reads of the slots: neither loss trains the model, and the model's loss trains no compressor.

    The map begins as mean pooling, so that slots resemble their tokens from the first step on.
    """

    class Config(Compressor.Config):
        loss: Literal["attention", "auto_encoding"] = "attention"
        """What trains it: that attention reads the same from the slots as from the tokens, or that the tokens can be
        made of them again."""
        weight: Positive = 1.0
        """Of this loss. Other parameters notice it only where gradients are clipped by the norm of all."""

        def params(self, dim: int, rate: int) -> int:
            decoder = rate * dim * (dim + 1) if self.loss == "auto_encoding" else 0
            return rate * dim * dim + dim + decoder

        def flops(self, dim: int, rate: int) -> int:
            return 2 * self.slots * rate * dim * dim

    config: Config

    def __init__(self, config: Learned.Config, dim: int, rate: int) -> None:
        super().__init__(config, dim, rate)
        self.weight_DZ = nn.Parameter(torch.eye(dim).repeat(1, rate) / rate)
        self.bias_D = nn.Parameter(torch.zeros(dim))
        if config.loss == "auto_encoding":
            self.decoder = linear(dim, rate * dim, bias=True)

    def forward(self, x_NTD: Float[Tensor, "N T D"], usage_NT: Tensor | None) -> Float[Tensor, "N S D"]:
        return F.linear(self.by_slot(x_NTD).flatten(2), self.weight_DZ, self.bias_D)

    def loss(self, moved: Eviction) -> Float[Tensor, ""]:
        error = self._auto_encoding(moved) if self.config.loss == "auto_encoding" else _attention(moved)
        return self.config.weight * error

    def _auto_encoding(self, moved: Eviction) -> Float[Tensor, ""]:
        again_BNTD = self.decoder(moved.new_BNSD).unflatten(-1, (self.rate, self.dim)).flatten(2, 3)
        return _mean(_squares(again_BNTD, moved.old_BNTD).mean((2, 3)), moved.whole_BN)


def _attention(moved: Eviction) -> Float[Tensor, ""]:
    both = []
    for x_BNTD in (moved.old_BNTD, moved.new_BNSD):
        real_BM = None if moved.whole_BN is None else moved.whole_BN.repeat_interleave(x_BNTD.shape[2], dim=1)
        both.append(moved.read(x_BNTD.flatten(1, 2), real_BM))
    old_BHLK, new_BHLK = both
    counts_BL = moved.valid_BL
    if moved.whole_BN is not None:
        some_B1 = moved.whole_BN.any(1, keepdim=True)
        counts_BL = some_B1.expand(-1, old_BHLK.shape[2]) if counts_BL is None else counts_BL & some_B1
    return _mean(_squares(new_BHLK, old_BHLK).mean((1, 3)), counts_BL)


def _squares(here: Tensor, there: Tensor) -> Tensor:
    """At least in fp32: differences of nearly equal numbers."""
    wide = torch.promote_types(here.dtype, torch.float32)
    return (here.to(wide) - there.to(wide)).square()


def _mean(x_BX: Float[Tensor, "B X"], counts_BX: Bool[Tensor, "#B X"] | None) -> Float[Tensor, ""]:
    """Over what counts; 0 if nothing does."""
    if counts_BX is None:
        return x_BX.mean()
    counts_BX = counts_BX.expand_as(x_BX)
    return (x_BX * counts_BX).sum() / counts_BX.sum().clamp(min=1)
