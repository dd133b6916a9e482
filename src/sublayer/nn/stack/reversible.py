"""The reversible stack: two streams, whose values before a sublayer are found again from those after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor

from sublayer.nn import layout as layouts
from sublayer.nn.config import Count
from sublayer.nn.part import Part, Work
from sublayer.nn.scene import Scene
from sublayer.nn.stack import reversal
from sublayer.nn.stack.plain import Plain


class Reversible(Plain):
    """y₁ = x₁ + F(x₂), y₂ = x₂ + G(y₁) for each pair of sublayers F, G, without their shortcuts (Gomez et al. 2017,
    section 3.1; Kitaev et al. 2020, section 3: F an attention, G a feed-forward).

    Both streams begin as x; the output is the final norm of their mean. Training stores the last y₁ and y₂ only: going
    back, x₂ = y₂ − G(y₁) and x₁ = y₁ − F(x₂). Activations then take as much memory as those of one sublayer, however
    deep the stack, and a step takes about a third more time. What other sublayers take (dropout, memories, sources,
    losses of parts) is replayed exactly; see `reversal.py`, also for what runs without it.

    A feed-forward looks at one token at a time, so `chunks` of the text can go through it one after another.

    Deviations: the authors' code (trax) concatenates the two streams, so that the last norm and the head are twice as
    wide; the mean leaves both as any stack has them. Streams have at least 32 bits, also in a model of 16, since what
    is rounded away cannot be found again.
    """

    calls = "branch"
    recomputes = True

    class Config(Plain.Config, tag="reversible"):
        chunks: Count = 1
        """In how many pieces of the text a part that looks at one token at a time is run."""

        @model_validator(mode="after")
        def _reverses(self) -> Reversible.Config:
            count = len(layouts.expand(self.layout))
            if count % 2:
                raise ValueError(
                    f"layout {self.layout!r} has {count} sublayers, but a stack of kind reversible takes them in "
                    "pairs; use an even number of sublayers, or kind=plain"
                )
            if not self.residual.adds:
                raise ValueError(
                    f"residual={self.residual.tag} does more than add a part's output to the stream, and a stack of "
                    "kind reversible takes it away again; use residual=pre_norm, with residual.add=sum, or kind=plain"
                )
            return self

        def at_once(self, part: Part.Config, work: Work) -> Work:
            return replace(work, length=-(-work.length // self.chunks_of(part)))

        def chunks_of(self, part: Part.Config) -> int:
            return 1 if part.attends else self.chunks

        def activation_size(self, dim: int, work: Work, rows: int = 1) -> int:
            return max(super().activation_size(dim, work, rows), 2 * rows * work.length * dim)

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__(config, dim)
        self.carries = config.carries
        self.chunks = [config.chunks_of(part) for part in config.parts]

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, states: tuple[Any, ...] | None = None
    ) -> tuple[Float[Tensor, "B L D"], tuple[Any, ...]]:
        states = reversal.made(states)
        if reversal.serves(self, x_BLD, states):
            first_BLD, second_BLD, after = reversal.run(self, x_BLD, scene, states)
        else:
            first_BLD, second_BLD, after = self.loop(x_BLD, scene, states)
        return self.final_norm(((first_BLD + second_BLD) / 2).to(x_BLD.dtype)), after

    def loop(self, x_BLD: Tensor, scene: Scene, states: tuple[Any, ...] | None) -> tuple[Tensor, Tensor, tuple]:
        """Both streams after all sublayers, and the states; the slow twin of `reversal.run`."""
        first_BLD = second_BLD = x_BLD.to(torch.promote_types(x_BLD.dtype, torch.float32))
        after = []
        for n in range(len(self.sublayers)):
            y_BLD, state = self.branch(n, second_BLD.to(x_BLD.dtype), scene, states[n] if states else None)
            first_BLD, second_BLD = second_BLD, first_BLD + y_BLD
            after.append(state)
        return first_BLD, second_BLD, tuple(after)

    def branch(self, n: int, x_BLD: Tensor, scene: Scene, state: Any) -> tuple[Tensor, Any]:
        """What sublayer n adds to a stream, and its state."""
        pieces, sublayer = list(self.pieces(n, scene)), self.sublayers[n]
        if len(pieces) == 1:
            return sublayer.branch(x_BLD, scene, state)  # pyright: ignore[reportCallIssue]
        branch, before = self.drawn(n), dict(scene.losses)
        y_BLD = torch.cat([branch(x_BLD[:, at], here, None)[0] for at, here in pieces], dim=1)
        if any(loss is not before.get(name) for name, loss in scene.losses.items()):
            raise ValueError(
                f"stack.chunks={self.chunks[n]}: sublayer {n} ({type(sublayer.part).__name__}) adds a loss, which is "
                "one of the whole text and not of its pieces; use chunks=1"
            )
        return y_BLD, None

    def drawn(self, n: int) -> Callable[[Tensor, Scene, Any], tuple[Tensor, Any]]:
        """The branch of sublayer n as it runs in this pass, in all pieces alike (LayerDrop)."""
        sublayer: Any = self.sublayers[n]
        drawn = sublayer.drawn()
        if drawn is None:
            return lambda x_BLD, scene, state: (torch.zeros_like(x_BLD), sublayer.skip(x_BLD, scene, state))
        return drawn.branch

    def pieces(self, n: int, scene: Scene) -> Iterator[tuple[slice, Scene]]:
        """The pieces of the text that sublayer n takes one after another, each with its scene."""
        length, size = scene.length, -(-scene.length // self.chunks[n])
        if size == length:
            yield slice(None), scene
            return
        for t in range(0, length, size):
            yield slice(t, t + size), scene.cut(t, min(size, length - t))

    def freeze(self, states: tuple[Any, ...], scene: Scene) -> tuple[Any, ...]:
        return super().freeze(reversal.made(states) or (), scene)
