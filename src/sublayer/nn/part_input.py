"""What a part reads, norm(x), seen from outside while its model runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from sublayer.nn.model import Model
    from sublayer.nn.residual import Residual
    from sublayer.nn.scene import Scene


class PartInput:
    """The inputs of one part, in the pieces in which its stack runs it."""

    def __init__(self) -> None:
        self.pieces: list[Tensor] = []

    def take(self, length: int) -> Tensor | None:
        """That of the last `length` tokens read, which is then forgotten; None where the part did not run over them.

        A stack may run a part token by token, and it may run one several times: the last time counts.
        """
        pieces, self.pieces = self.pieces, []
        if sum(piece.shape[1] for piece in pieces) < length:
            return None
        return torch.cat(pieces, dim=1)[:, -length:] if len(pieces) > 1 else pieces[0][:, -length:]


@contextmanager
def watching(sublayer: Residual) -> Iterator[PartInput]:
    """Inside this context, the inputs of the sublayer's part are collected; what the model computes stays the same."""
    part, seen = sublayer.part, PartInput()
    run = part.forward_normed

    def watched(norm: nn.Module, x_BLD: Tensor, scene: Scene, state: Any = None) -> tuple[Tensor, Any]:
        seen.pieces.append(norm(x_BLD))
        return run(norm, x_BLD, scene, state)

    # A hook that does nothing: fast paths of a whole stack, which would not call the part, step aside for hooks.
    hook = sublayer.register_forward_pre_hook(lambda module, inputs: None)
    part.forward_normed = watched
    try:
        yield seen
    finally:
        del part.forward_normed
        hook.remove()


def last_feedforward(model: Model) -> Residual | None:
    """The last sublayer of the stack that writes whose part looks at one token at a time; None where there is none, or
    where sublayers stand for several slots."""
    config, stack = model.config.writer, model.writer
    alone = [n for n, part in config.numbered if not part.attends and not part.needs_source]
    if not alone or len(stack.sublayers) != len(config.parts):
        return None
    return stack.sublayers[alone[-1]]  # pyright: ignore[reportReturnType]
