"""A Feedback segment read in sweeps: all places at once, on a guess of the memory, until the memory stops changing.

Place t depends on the memory before it alone, so that after t sweeps place t is exact whatever the guess; mostly far
fewer do, since what a place takes from the memory is a correction to what it is. It pays where there are few rows: the
loop then reads all weights for each place, a sweep once for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sublayer.nn.memory import KeyValues
from sublayer.nn.scene import Scene
from sublayer.nn.state import Growing

if TYPE_CHECKING:
    from sublayer.nn.stack.feedback import Feedback

ROWS, LENGTH = 4, 32
"""At most so many rows and at least so many places: beyond, the loop is as fast."""
PIECE = 128
"""Places swept together: what is far ahead settles last, and would be swept in vain until then."""
MOST = 24
"""Sweeps of a piece, before the loop takes over."""

Read = tuple[Tensor, list[KeyValues | None], list[Tensor], list[Any]]


def serves(stack: Feedback, x_BLD: Tensor, scene: Scene) -> bool:
    """Whether nothing is learned or drawn, all rows are alike, and there is something to win."""
    still = not torch.is_grad_enabled() and not stack.training and scene.even and scene.segment_L is None
    return still and len(x_BLD) <= ROWS and scene.length >= LENGTH and x_BLD.device.type != "meta"


def read(stack: Feedback, x_BLD: Tensor, scene: Scene, keys: list[KeyValues | None], others: list[Any]) -> Read | None:
    """As the stack's loop gives it; None if it is not for sweeps. A piece that does not come to rest, and all after
    it, go by the loop, and so does a piece of one place, which is what the loop takes at a time."""
    if not serves(stack, x_BLD, scene):
        return None
    streams, vectors, t = [], [], 0
    while t < scene.length:
        here = scene.cut(t, min(PIECE, scene.length - t))
        swept = settle(stack, x_BLD[:, t : t + PIECE], here, keys, others) if here.length > 1 else None
        if swept is None:
            here = scene.cut(t, scene.length - t)
            swept = (*stack.loop(list(stack.sublayers), x_BLD[:, t:], here, keys, others), others)
        y_BLD, keys, made, others = swept
        streams.append(y_BLD)
        vectors.append(made)
        t += here.length
    return torch.cat(streams, dim=1), keys, [torch.cat(one, dim=1) for one in zip(*vectors, strict=True)], others


def settle(
    stack: Feedback, x_BLD: Tensor, scene: Scene, keys: list[KeyValues | None], others: list[Any]
) -> Read | None:
    """A piece by sweeps; None if it does not come to rest."""
    vectors = [x_BLD] * len(keys)
    close = 4 * torch.finfo(x_BLD.dtype).eps
    for _ in range(MOST):
        known = [_with(stack, n, m_BLD, scene, keys[n]) for n, m_BLD in enumerate(vectors)]
        y_BLD, found, after = _sweep(stack, x_BLD, scene, known, others)
        gaps = (float((new - old).abs().max() / new.abs().max()) for new, old in zip(found, vectors, strict=True))
        vectors = found
        if max(gaps) <= close:
            return y_BLD, list(known), found, after
    return None


def _with(stack: Feedback, n: int, m_BLD: Tensor, scene: Scene, past: KeyValues | None) -> KeyValues:
    """Keys and values of what is remembered, then of these vectors."""
    k_BGLK, v_BGLK = stack.project(n, m_BLD, scene, 0)
    if past is not None:
        sees = stack.sees(n, scene)
        k_BGLK = torch.cat([past.k.last(sees), k_BGLK], dim=2)
        v_BGLK = torch.cat([past.v.last(sees), v_BGLK], dim=2)
    return KeyValues(Growing.of(k_BGLK, 2), Growing.of(v_BGLK, 2))


def _sweep(
    stack: Feedback, x_BLD: Tensor, scene: Scene, known: list[KeyValues], others: list[Any]
) -> tuple[Tensor, list[Tensor], list[Any]]:
    """Through all sublayers, and the memory vectors that come of it."""
    layers, after = [x_BLD], list(others)
    for n, sublayer in enumerate(stack.sublayers):
        if n in stack.config.reads:
            x_BLD = sublayer(x_BLD, scene, known[stack.config.reads[n]])[0]
        else:
            x_BLD, after[n] = sublayer(x_BLD, scene, others[n])
        if n in stack.lasts:
            layers.append(x_BLD)
    composed = stack.compose(layers)
    return x_BLD, [composed[stream] for stream in stack.config.streams], after
