"""A few blocks at random."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from sublayer.nn.attention.bands import Band
from sublayer.nn.attention.dropout import WORD, mixed
from sublayer.nn.attention.pattern.base import Bands, Pattern
from sublayer.nn.attention.ranges import Ranges
from sublayer.nn.config import Count


class Random(Pattern):
    """Each block of queries sees a few blocks of keys drawn at random, others in each head and layer.

    Draws are a hash of (seed, block, draw): they do not change as a text grows. Looking back, a block draws from all
    that stand before it. Looking both ways, it draws from its own group of `among` tokens, and draws behind the text's
    end are lost: `among` should be the length of the texts.
    """

    class Config(Pattern.Config, tag="random"):
        block: Count = 64
        blocks: Count = 3
        """Draws of each block; one drawn twice counts once."""
        look: Literal["back", "both"] = "back"
        among: Count = 4096
        seed: int = 0

        @property
        def causal(self) -> bool:
            return self.look == "back"

        def at(self, layer: int, layers: int) -> Pattern.Config:
            return self.but(seed=_derived(self.seed, 2 * layer))

        def by_head(self, heads: int) -> tuple[Pattern.Config, ...]:
            return tuple(self.but(seed=_derived(self.seed, 2 * h + 1)) for h in range(heads))

        def drawn(self, block: Tensor) -> Tensor:
            """The blocks that these see, on a new last axis; −1 for none."""
            words = torch.arange(self.blocks, device=block.device)
            word = mixed((mixed((block[..., None] * self.blocks + words) & WORD) + self.seed) & WORD)
            if self.look == "back":
                return torch.where(block[..., None] > 0, word * block[..., None] >> 32, -1)
            near = max(1, self.among // self.block)
            return block[..., None] // near * near + (word * near >> 32)

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return (self.drawn(i // self.block) == (j // self.block)[..., None]).any(-1)

        def bands(self, length: int, memory: int, start: int) -> Bands:
            i_L = torch.arange(start, start + length)
            drawn_LR = self.drawn(i_L // self.block)
            again_LRR = (drawn_LR[:, :, None] == drawn_LR[:, None, :]).tril(-1)
            drawn_LR = drawn_LR.masked_fill(again_LRR.any(-1), -1)
            lo_LR = (drawn_LR * self.block - (start - memory)).clamp(0, memory + length)
            hi_LR = ((drawn_LR + 1) * self.block - (start - memory)).clamp(0, memory + length)
            hi_LR = torch.where(drawn_LR < 0, lo_LR, hi_LR)
            bands = (Band(lo.int(), hi.int()) for lo, hi in zip(lo_LR.unbind(1), hi_LR.unbind(1), strict=True))
            return tuple(band.only(band.lo < band.hi) for band in bands)

        def ranges(self, i: int) -> Ranges:
            blocks = _drawn(self, i // self.block)
            drawn = (range(block * self.block, min((block + 1) * self.block, i + 1)) for block in blocks)
            return tuple(one for one in drawn if one)


@lru_cache(maxsize=4096)
def _drawn(pattern: Random.Config, block: int) -> tuple[int, ...]:
    """The blocks that a block sees, each once."""
    return tuple({one for one in pattern.drawn(torch.tensor(block)).tolist() if one >= 0})


def _derived(seed: int, by: int) -> int:
    return int(mixed(torch.tensor((seed * 0x9E3779B1 + by + 1) & WORD)))
