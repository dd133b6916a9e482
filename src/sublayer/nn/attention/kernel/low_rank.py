"""E and F of Linformer: weights with which the keys, and the values, of many tokens become those of few slots."""

from __future__ import annotations

from math import prod
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

Share = Literal["none", "heads", "keys_values"]
"""none: E and F for each key head; heads: one E and one F for all heads of a layer; keys_values: E = F as well."""


class LowRank(nn.Module):
    """E and F, of one shape for each head that has its own. A slot's key is about as large as a token's, where all of
    E's columns are in use."""

    key: nn.Parameter
    value: nn.Parameter | None

    def __init__(self, share: Share, groups: int, shape: tuple[int, int], tokens: int) -> None:
        """`tokens`: how many a slot sums over."""
        super().__init__()
        heads, deviation = groups if share == "none" else 1, tokens**-0.5
        self.key = nn.Parameter(torch.empty(heads, *shape).normal_(std=deviation))
        own = None if share == "keys_values" else nn.Parameter(torch.empty(heads, *shape).normal_(std=deviation))
        self.register_parameter("value", own)

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        """E and F, the first axis of which is 1 where heads share them."""
        return self.key, self.key if self.value is None else self.value

    @staticmethod
    def params(share: Share, groups: int, shape: tuple[int, int]) -> int:
        return prod(shape) * {"none": 2 * groups, "heads": 2, "keys_values": 1}[share]


def summed(x_BGTK: Float[Tensor, "B G *n T K"], weight_GRT: Float[Tensor, "#G R T"]) -> Float[Tensor, "B G *n R K"]:
    """E x. As one product for all rows and blocks, so that E is not repeated for each."""
    if len(weight_GRT) == 1:
        return torch.einsum("rt,bg...tk->bg...rk", weight_GRT[0], x_BGTK)
    return torch.einsum("grt,bg...tk->bg...rk", weight_GRT, x_BGTK)
