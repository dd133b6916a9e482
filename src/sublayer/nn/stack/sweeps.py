"""A Feedback segment read in sweeps: all tokens at once, on a guess of the memory, until the memory stops changing.

Token t depends on the memory before it alone, so that after t sweeps token t is exact whatever the guess. Mostly far
fewer suffice, since what a token takes from the memory is a correction to what it is. It pays where there are few rows:
the loop then reads all weights for each token, a sweep once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sublayer.nn import paths
from sublayer.nn.memory import KeyValues
from sublayer.nn.scene import Scene
from sublayer.nn.stack.feedback import Feedback
from sublayer.nn.state import Growing

ROWS, LENGTH = 4, 32
"""At most so many rows and at least so many tokens: beyond, the loop is as fast."""
PIECE = 128
"""Tokens swept together: those far ahead become exact last, and sweeps over them until then are wasted."""
MOST = 24
"""Sweeps of a piece, before the loop takes over."""

Result = tuple[Tensor, list[KeyValues | None], list[Tensor], list[Any]]
"""As of the loop, and the states of parts that do not read the memory."""


def why_not(stack: nn.Module, mode: paths.Mode) -> str | None:
    """Why sweeps do not serve this stack; None if they do."""
    # A subclass with another loop may compute anything; one without overhead (generation) has this one.
    if not isinstance(stack, Feedback) or type(stack).loop is not Feedback.loop:
        return paths.UNRELATED
    return "it serves passes without a gradient only" if mode == "training" else None


def serves(stack: Feedback, sublayers: Sequence[nn.Module | None], x_BLD: Tensor, scene: Scene) -> bool:
    """Whether nothing is learned or drawn at random, rows have no padding, and sweeps are faster than the loop."""
    if torch.is_grad_enabled() or stack.training or not scene.even or scene.segment_L is not None:
        return False
    if len(x_BLD) > ROWS or scene.length < LENGTH or x_BLD.device.type == "meta":
        return False
    return why_not(stack, "generation") is None


def read(
    stack: Feedback,
    sublayers: Sequence[nn.Module | None],
    x_BLD: Tensor,
    scene: Scene,
    keys: list[KeyValues | None],
    others: list[Any],
) -> Result:
    """A segment, as `Feedback.forward` asks for it. A piece whose memory goes on changing, and all after it, are read
    by the loop, and so is a piece of one token, which is what the loop takes at a time."""
    streams, vectors, t = [], [], 0
    while t < scene.length:
        here = scene.cut(t, min(PIECE, scene.length - t))
        swept = converge(stack, x_BLD[:, t : t + PIECE], here, keys, others) if here.length > 1 else None
        if swept is None:
            here = scene.cut(t, scene.length - t)
            swept = (*stack.loop(list(stack.sublayers), x_BLD[:, t:], here, keys, others), others)
        y_BLD, keys, made, others = swept
        streams.append(y_BLD)
        vectors.append(made)
        t += here.length
    return torch.cat(streams, dim=1), keys, [torch.cat(one, dim=1) for one in zip(*vectors, strict=True)], others


def converge(
    stack: Feedback, x_BLD: Tensor, scene: Scene, keys: list[KeyValues | None], others: list[Any]
) -> Result | None:
    """A piece by sweeps; None if the memory still changes after MOST of them."""
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
    """Keys and values of the tokens before, then of these memory vectors."""
    k_BGLK, v_BGLK = stack.project(n, m_BLD, scene, 0)
    if past is not None:
        holds = stack.config.holds[n]
        k_BGLK = torch.cat([past.k.last(holds), k_BGLK], dim=2)
        v_BGLK = torch.cat([past.v.last(holds), v_BGLK], dim=2)
    return KeyValues(Growing.of(k_BGLK, 2), Growing.of(v_BGLK, 2))


def _sweep(
    stack: Feedback, x_BLD: Tensor, scene: Scene, known: list[KeyValues], others: list[Any]
) -> tuple[Tensor, list[Tensor], list[Any]]:
    """All tokens through all sublayers: the stream, its memory vectors, and the states of the other parts."""
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


paths.register(paths.FastPath("stack", "sweeps over all tokens", why_not, serves, read))
