"""The plain stack: one sublayer after another, each with weights of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.part import Part, Work
from sublayer.nn.residual import Residual
from sublayer.nn.scene import Scene
from sublayer.nn.shared import SharedModules
from sublayer.nn.stack.base import Stack, init_weights


class Plain(Stack):
    """x ← sublayer_n(x) for every letter of the word, then the final norm."""

    class Config(Stack.Config, tag="plain"):
        def activation_size(self, dim: int, work: Work, rows: int = 1) -> int:
            """Each sublayer beside the states that those before it have left."""
            stored, highest = 0, super().activation_size(dim, work, rows)
            for n, part in self.numbered:
                slot = self.slot(dim, index=n)
                highest = max(highest, stored + part.activation_size(slot, self.at_once(part, work), rows))
                stored += rows * part.state_size(slot, work)
            return max(highest, stored)

        def at_once(self, part: Part.Config, work: Work) -> Work:
            """What of a pass a part computes at one time."""
            return work

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.position = config.position.build(dim, config.head_dim(dim))
        self.shared = SharedModules()
        slots = [config.slot(dim, self.position, n, self.shared) for n in range(len(config.parts))]
        self.sublayers = nn.ModuleList(
            config.residual.build(part.build(slot), slot) for part, slot in zip(config.parts, slots, strict=True)
        )
        self.final_norm = config.final_norm.build(dim)
        init_weights(self, config, len(self.sublayers))

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, states: tuple[Any, ...] | None = None
    ) -> tuple[Float[Tensor, "B L D"], tuple[Any, ...]]:
        after = []
        for n, sublayer in enumerate(self.order):
            x_BLD, state = sublayer(x_BLD, scene, states[n] if states else None)
            after.append(state)
        return self.final_norm(x_BLD), tuple(after)

    @property
    def order(self) -> Iterable[Residual]:
        """The sublayers in the order they run. A stack that shares weights lists one more than once; each time it runs
        it has a state of its own."""
        return self.sublayers  # pyright: ignore[reportReturnType]

    def freeze(self, states: tuple[Any, ...], scene: Scene) -> tuple[Any, ...]:
        return tuple(sublayer.freeze(state, scene) for sublayer, state in zip(self.order, states, strict=bool(states)))
