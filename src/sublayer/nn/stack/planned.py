"""Whether a Feedback stack can go by `unrolled/`, and a segment that does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sublayer.native.tensors import transformed
from sublayer.nn.attention.cross import Cross
from sublayer.nn.attention.pattern import sight
from sublayer.nn.attention.recall import Recall
from sublayer.nn.attention.span import AdaptiveSpan
from sublayer.nn.feedforward import Dense, Glu
from sublayer.nn.feedforward.activation import ACTIVATIONS
from sublayer.nn.hooked import hooked
from sublayer.nn.memory import KeyValues
from sublayer.nn.position import NoPosition, Position, RelativeKey, Rotary
from sublayer.nn.residual import PostNorm, PreNorm, Sum
from sublayer.nn.scene import Scene
from sublayer.nn.stack import native, unrolled
from sublayer.nn.stack.planner import Planner
from sublayer.nn.state import Growing

if TYPE_CHECKING:
    from sublayer.nn.stack.feedback import Feedback

PIECE = 64
"""Places that are read at a time where no gradient is wanted."""


def serves(stack: Feedback, sublayers: Sequence[nn.Module], x_BLD: Tensor, scene: Scene) -> bool:
    """Whether every sublayer is of a kind that the loop knows; without a gradient it is worth its while in C alone.

    What LayerDrop leaves out this time need not be known, but decides with the others what they have in common.
    """
    if transformed() or 0 in x_BLD.shape:
        return False
    if not torch.is_grad_enabled() and not (native.runs(x_BLD) and all(map(_in_c, sublayers))):
        return False
    if torch.is_autocast_enabled(x_BLD.device.type) or scene.length < 2:
        return False
    if not all(_known(sublayer) for sublayer in sublayers) or hooked(*stack.modules()):
        return False
    if not any(isinstance(sublayer.part, Recall) for sublayer in sublayers):
        return False
    if stack.config.shared and not (_plain(stack.norm) and type(stack.key_value) is nn.Linear):
        return False
    recalls: list[Recall] = [one.part for one in stack.sublayers if isinstance(one.part, Recall)]  # pyright: ignore[reportAssignmentType]
    first = recalls[0]
    by_distance = isinstance(first.position, RelativeKey) or any(recall.span is not None for recall in recalls)
    crossed = [one.part for one in stack.sublayers if isinstance(one.part, Cross)]
    alike = all(_like(first, recall) for recall in recalls) and all(_sizes(first) == _sizes(one) for one in crossed)
    if not all(recall.key_value is None or type(recall.key_value) is nn.Linear for recall in recalls):
        return False
    return alike and (_in_step(scene) or not by_distance)


def _in_step(scene: Scene) -> bool:
    """Whether places are as far apart as their numbers: all are real, or padding stands at the ends of rows alone."""
    if scene.even or scene.start or scene.valid_BL is None:
        return scene.even
    ahead_BL = scene.i_BL - torch.arange(scene.length, device=scene.i_BL.device)
    none = torch.iinfo(ahead_BL.dtype)
    first_B = ahead_BL.masked_fill(~scene.valid_BL, none.max).amin(1)
    last_B = ahead_BL.masked_fill(~scene.valid_BL, none.min).amax(1)
    return bool((first_B >= last_B).all())


def _in_c(sublayer: nn.Module) -> bool:
    return native.knows(getattr(sublayer.part, "activation", None))


def _known(sublayer: nn.Module) -> bool:
    if not isinstance(sublayer, (PreNorm, PostNorm)) or not isinstance(sublayer.add, Sum) or not _drops(sublayer.drop):
        return False
    if type(sublayer.norm) is not nn.LayerNorm or sublayer.norm.weight is None:
        return False
    part = sublayer.part
    matrices = (getattr(part, name, None) for name in ("query", "key_value", "enter", "output"))
    if not all(matrix is None or type(matrix) is nn.Linear for matrix in matrices):
        return False
    if type(part) is Glu and part.act is not ACTIVATIONS[part.activation]:
        return False
    if type(part) in (Dense, Glu):
        return _drops(part.drop)
    if type(part) is Cross:
        return True
    if type(part) is not Recall:
        return False
    known = type(part.position) in (Position, NoPosition, RelativeKey, Rotary)
    return known and (part.span is None or type(part.span) is AdaptiveSpan)


def _drops(drop: Any) -> bool:
    return type(drop) is nn.Identity or (type(drop) is nn.Dropout and drop.p < 1)


def _plain(norm: nn.Module) -> bool:
    return isinstance(norm, nn.Identity) or (type(norm) is nn.LayerNorm and norm.weight is not None)


def _like(first: Recall, other: Recall) -> bool:
    """One loop for all: heads of one size, one pattern."""
    mine, its = first.config, other.config
    return (*_sizes(first), mine.bias, mine.pattern, mine.memory) == (
        *_sizes(other),
        its.bias,
        its.pattern,
        its.memory,
    )


def _sizes(part: Recall | Cross) -> tuple[int, int, int]:
    return part.heads, part.groups, part.head_dim


Read = tuple[Tensor, list[KeyValues | None], list[Tensor]]
"""The stream after the last sublayer, keys and values of all places, and memory vectors of the segment's."""


def read(
    stack: Feedback,
    sublayers: Sequence[nn.Module | None],
    x_BLD: Tensor,
    scene: Scene,
    keys: list[KeyValues | None],
    others: list[Any],
) -> Read:
    """Without a gradient a loop would keep what nobody asks for: pieces of the segment, one after another.

    Of the others' states, cross-attentions have one: it is filled in.
    """
    for n, sublayer in enumerate(stack.sublayers):
        if isinstance(sublayer.part, Cross) and others[n] is None:
            others[n] = sublayer.part.read(scene)
    if torch.is_grad_enabled():
        return run(stack, sublayers, x_BLD, scene, keys, others)
    streams, vectors = [], []
    for t in range(0, scene.length, PIECE):
        now = slice(t, min(t + PIECE, scene.length))
        here = scene.cut(t, now.stop - t)
        x, keys, made = run(stack, sublayers, x_BLD[:, now], here, keys, others)
        streams.append(x)
        vectors.append(made)
    return torch.cat(streams, dim=1), keys, [torch.cat(one, dim=1) for one in zip(*vectors, strict=True)]


def run(
    stack: Feedback,
    sublayers: Sequence[nn.Module | None],
    x_BLD: Tensor,
    scene: Scene,
    keys: list[KeyValues | None],
    others: Sequence[Any],
) -> Read:
    planner = Planner(stack, sublayers, scene, others)
    past_k, past_v = _past(stack, x_BLD, scene, keys)
    plan = planner.plan(past_k.shape[3])
    mask_TBC, turn = _mask(stack, scene, past_k.shape[3], x_BLD), _turn(stack, scene, x_BLD)
    made = unrolled.Unrolled.apply(plan, mask_TBC, turn, x_BLD.transpose(0, 1), past_k, past_v, *planner.weights)
    x_TBD, k, v, m_TRBD = made  # pyright: ignore[reportGeneralTypeIssues]
    after: list[KeyValues | None] = [KeyValues(Growing.of(k[n], 2), Growing.of(v[n], 2)) for n in range(len(keys))]
    vectors = [m_TRBD[:, stream].transpose(0, 1) for stream in stack.config.streams]
    return x_TBD.transpose(0, 1), after, vectors


def _past(stack: Feedback, x_BLD: Tensor, scene: Scene, keys: list[KeyValues | None]) -> tuple[Tensor, Tensor]:
    """(sets, B, G, M, K) of what is remembered, which may be nothing."""
    reader = stack.readers(0)[0]
    if keys[0] is None:
        nothing = x_BLD.new_empty(len(keys), len(x_BLD), reader.groups, 0, reader.head_dim)
        return nothing, nothing
    seen = [stack.sees(n, scene) for n in range(len(keys))]
    both = [(one.k.last(sees), one.v.last(sees)) for one, sees in zip(keys, seen, strict=True) if one is not None]
    most_M = max(k_BGMK.shape[2] for k_BGMK, _ in both)
    k, v = zip(*((_after_nothing(k, most_M), _after_nothing(v, most_M)) for k, v in both), strict=True)
    return torch.stack(k).to(x_BLD.dtype), torch.stack(v).to(x_BLD.dtype)


def _after_nothing(x_BGMK: Tensor, places: int) -> Tensor:
    """With zeros before it, which none of its readers looks at, so that all sets are as long."""
    return nn.functional.pad(x_BGMK, (0, 0, places - x_BGMK.shape[2], 0))


def _mask(stack: Feedback, scene: Scene, memory: int, x_BLD: Tensor) -> Tensor | None:
    """(T, B, M + T): 0 where a place may look, −∞ elsewhere; None if all before it are seen."""
    if scene.even and scene.segment_L is None:
        return None
    config = stack.readers(0)[0].config
    seen_B1LM = sight(scene, config.pattern, config.memory, memory).mask_B1LM
    if seen_B1LM is None:
        return None
    hidden_LBM = ~seen_B1LM[:, 0].expand(len(x_BLD), -1, -1).transpose(0, 1)
    return torch.zeros_like(hidden_LBM, dtype=x_BLD.dtype).masked_fill_(hidden_LBM, -torch.inf)


def _turn(stack: Feedback, scene: Scene, x_BLD: Tensor) -> tuple[Tensor, Tensor] | None:
    """Rotary's cosines and sines, (T, B or 1, K)."""
    position = stack.readers(0)[0].position
    if not isinstance(position, Rotary):
        return None
    cos_B1LK, sin_B1LK = position.angles(scene.i_BL, x_BLD.dtype)
    return cos_B1LK[:, 0].transpose(0, 1), sin_B1LK[:, 0].transpose(0, 1)
