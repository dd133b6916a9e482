"""The plain stack: one sublayer after another, each with weights of its own."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.scene import Scene
from sublayer.nn.stack.base import Stack, init_weights


class Plain(Stack):
    """x ← sublayer_n(x) for every letter of the word, then the final norm."""

    class Config(Stack.Config, tag="plain"):
        pass

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.position = config.position.build(dim, config.head_dim(dim))
        slot = config.slot(dim, self.position)
        self.sublayers = nn.ModuleList(config.residual.build(part.build(slot), slot) for part in config.parts)
        self.final_norm = config.final_norm.build(dim)
        init_weights(self, config, len(self.sublayers))

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, states: tuple[Any, ...] | None = None
    ) -> tuple[Float[Tensor, "B L D"], tuple[Any, ...]]:
        after = []
        for n, sublayer in enumerate(self.sublayers):
            x_BLD, state = sublayer(x_BLD, scene, states[n] if states else None)
            after.append(state)
        return self.final_norm(x_BLD), tuple(after)
