"""E and F of Linformer: weights with which the keys, and the values, of many tokens become those of few slots."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.part import Slot
from sublayer.nn.shared import refer

Share = Literal["none", "heads", "keys_values", "layers"]
"""none: E and F for each key head; heads: one E and one F for all heads of a layer; keys_values: E = F as well; layers:
one E = F for all layers of a stack in which it has the same shape."""


class LowRank(nn.Module):
    """E and F, of one shape for each head that has its own. A slot's key is about as large as a token's, where all of
    E's columns are in use."""

    key: nn.Parameter
    value: nn.Parameter | None

    def __init__(self, plan: Plan, groups: int) -> None:
        super().__init__()

        def drawn() -> nn.Parameter:
            heads = groups if plan.share == "none" else 1
            return nn.Parameter(torch.empty(heads, *plan.shape).normal_(std=plan.tokens**-0.5))

        self.key = drawn()
        self.register_parameter("value", None if plan.share in ("keys_values", "layers") else drawn())

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        """E and F, the first axis of which is 1 where heads share them."""
        return self.key, self.key if self.value is None else self.value


@dataclass(frozen=True)
class Plan:
    """Which E and F a layer is to have."""

    kind: str
    """What they compress, and how: layers share those of one kind and shape."""
    share: Share
    shape: tuple[int, int]
    """Of what is learned for a head's keys."""
    tokens: int
    """How many a slot sums over."""

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.shape[0]}x{self.shape[1]}"

    def params(self, groups: int) -> int:
        """Of a layer's own."""
        return prod(self.shape) * {"none": 2 * groups, "heads": 2, "keys_values": 1, "layers": 0}[self.share]

    def shared_params(self) -> dict[str, int]:
        """Of the stack's, by name."""
        return {self.name: prod(self.shape)} if self.share == "layers" else {}

    def give(self, layer: nn.Module, slot: Slot, groups: int) -> None:
        """Set `layer.weights`: its own, or the stack's."""
        if self.share == "layers" and slot.common is not None:
            refer(layer, "weights", slot.common.once(self.name, lambda: LowRank(self, groups)))
        else:
            layer.weights = LowRank(self, groups)


def summed(x_BGTK: Float[Tensor, "B G *n T K"], weight_GRT: Float[Tensor, "#G R T"]) -> Float[Tensor, "B G *n R K"]:
    """E x. As one product for all rows and blocks, so that E is not repeated for each."""
    if len(weight_GRT) == 1:
        return torch.einsum("rt,bg...tk->bg...rk", weight_GRT[0], x_BGTK)
    return torch.einsum("grt,bg...tk->bg...rk", weight_GRT, x_BGTK)
