"""The Feedback stack's loop by `unrolled/`, as two paths of the job "stack": in C, and in PyTorch for training.

Both ask for exact classes: a subclass may compute anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sublayer.native.tensors import plain, transformed
from sublayer.nn import paths
from sublayer.nn.attention.cross import Cross
from sublayer.nn.attention.kernel import Softmax
from sublayer.nn.attention.pattern import sight
from sublayer.nn.attention.recall import Recall
from sublayer.nn.attention.span import AdaptiveSpan
from sublayer.nn.feedforward import Dense, Glu
from sublayer.nn.feedforward.activation import ACTIVATIONS
from sublayer.nn.hooked import hooked
from sublayer.nn.memory import KeyValues
from sublayer.nn.paths import Mode
from sublayer.nn.position import NoPosition, Position, RelativeKey, Rotary
from sublayer.nn.residual import PostNorm, PreNorm, Sum
from sublayer.nn.scene import Scene
from sublayer.nn.stack import native, unrolled
from sublayer.nn.stack.feedback import Feedback
from sublayer.nn.stack.planner import Planner
from sublayer.nn.state import Growing

PIECE = 64
"""Tokens read at a time without a gradient, so that buffers for backward stay small."""


def why_not(stack: Any, mode: Mode) -> str | None:
    """Why the loop in C does not serve this stack; None if it does. Works on the meta device, too."""
    if (reason := _unknown(stack)) is not None:
        return reason
    if mode == "generation":
        return "it serves training and scoring, not the engine, whose modules are twins without overhead"
    if not all(map(_in_c, stack.sublayers)):
        return "no C code for the activation of a feed-forward"
    if not all(plain(x) or (x.device.type == "meta" and x.dtype == torch.float32) for x in stack.parameters()):
        return "it computes with float32 on a CPU"
    return None if native.available() else "there is no C library: no compiler, or SUBLAYER_NATIVE=0"


def why_not_unrolled(stack: Any, mode: Mode) -> str | None:
    """The same for the loop in PyTorch: without a gradient there is nothing to save."""
    return _unknown(stack) or (None if mode == "training" else "it serves training only")


def serves(stack: Feedback, sublayers: Sequence[nn.Module | None], x_BLD: Tensor, scene: Scene) -> bool:
    """Whether this pass can take the loop in C."""
    drawn = [one for one in sublayers if one is not None]
    return scene.length > 1 and native.runs(x_BLD) and all(map(_in_c, drawn)) and _serves(stack, drawn, x_BLD, scene)


def serves_unrolled(stack: Feedback, sublayers: Sequence[nn.Module | None], x_BLD: Tensor, scene: Scene) -> bool:
    """Whether this pass can take the same loop in PyTorch, and has a gradient for which it pays."""
    drawn = [one for one in sublayers if one is not None]
    return torch.is_grad_enabled() and _serves(stack, drawn, x_BLD, scene)


def _serves(stack: Feedback, drawn: Sequence[nn.Module], x_BLD: Tensor, scene: Scene) -> bool:
    """`drawn`: the sublayers that LayerDrop leaves in this time; the others may be of any kind."""
    if transformed() or 0 in x_BLD.shape:
        return False
    if torch.is_autocast_enabled(x_BLD.device.type) or scene.length < 2:
        return False
    return _unknown(stack, drawn) is None and (not _by_distance(stack) or _evenly_spaced(scene))


def _unknown(stack: nn.Module, drawn: Sequence[nn.Module] | None = None) -> str | None:
    """What about the stack the loop does not know; None if it knows all. Sublayers that are not drawn need not be
    known, but all attentions decide together what they have in common."""
    if type(stack) is not Feedback:
        return paths.UNRELATED
    drawn = list(stack.sublayers) if drawn is None else drawn
    for sublayer in drawn:
        if not _known(sublayer):
            return f"sublayer {list(stack.sublayers).index(sublayer)} is of a kind it does not know: {_kinds(sublayer)}"
    if hooked(*stack.modules()):
        return "a module has hooks, or a forward of its own"
    if not any(isinstance(sublayer.part, Recall) for sublayer in drawn):
        return "no attention reads the memory"
    if stack.config.shared and not (_plain(stack.norm) and type(stack.key_value) is nn.Linear):
        return "the norm or the projection of the memory is of a kind it does not know"
    recalls = _recalls(stack)
    if not all(recall.key_value is None or type(recall.key_value) is nn.Linear for recall in recalls):
        return "a projection of the memory is of a kind it does not know"
    first, crossed = recalls[0], [one.part for one in stack.sublayers if isinstance(one.part, Cross)]
    if not all(_like(first, recall) for recall in recalls) or any(_sizes(first) != _sizes(one) for one in crossed):
        return "attentions differ in heads, pattern or memory"
    if not first.config.pattern.contiguous:
        return f"pattern={first.config.pattern.tag} hides some of the last tokens"
    return None


def _kinds(sublayer: Any) -> str:
    modules = (sublayer, getattr(sublayer, "add", None), getattr(sublayer, "norm", None), sublayer.part)
    inside = (getattr(sublayer.part, "position", None), getattr(sublayer.part, "span", None))
    return ", ".join(type(module).__name__ for module in (*modules, *inside) if module is not None)


def _recalls(stack: Feedback) -> list[Recall]:
    return [one.part for one in stack.sublayers if isinstance(one.part, Recall)]  # pyright: ignore[reportReturnType]


def _by_distance(stack: Feedback) -> bool:
    """Whether scores depend on the distance between tokens."""
    recalls = _recalls(stack)
    return isinstance(recalls[0].position, RelativeKey) or any(recall.span is not None for recall in recalls)


def _evenly_spaced(scene: Scene) -> bool:
    """Whether the distance of two tokens is that of their indices: no padding, or at the ends of rows only."""
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
        return type(part.kernel) is Softmax
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


Result = tuple[Tensor, list[KeyValues | None], list[Tensor]]
"""The stream after the last sublayer, keys and values of all tokens, and memory vectors of the segment's."""


def read(
    stack: Feedback,
    sublayers: Sequence[nn.Module | None],
    x_BLD: Tensor,
    scene: Scene,
    keys: list[KeyValues | None],
    others: list[Any],
) -> tuple[Tensor, list[KeyValues | None], list[Tensor], list[Any]]:
    """A segment, as `Feedback.forward` asks for it.

    Of the parts that do not read the memory, cross-attentions have a state: it is filled in. Without a gradient the
    loop's buffers are of no use later, so the segment is read in pieces, one after another.
    """
    for n, sublayer in enumerate(stack.sublayers):
        if isinstance(sublayer.part, Cross) and others[n] is None:
            others[n] = sublayer.part.read(scene)
    if torch.is_grad_enabled():
        return *run(stack, sublayers, x_BLD, scene, keys, others), others
    streams, vectors = [], []
    for t in range(0, scene.length, PIECE):
        now = slice(t, min(t + PIECE, scene.length))
        here = scene.cut(t, now.stop - t)
        x, keys, made = run(stack, sublayers, x_BLD[:, now], here, keys, others)
        streams.append(x)
        vectors.append(made)
    return torch.cat(streams, dim=1), keys, [torch.cat(one, dim=1) for one in zip(*vectors, strict=True)], others


def run(
    stack: Feedback,
    sublayers: Sequence[nn.Module | None],
    x_BLD: Tensor,
    scene: Scene,
    keys: list[KeyValues | None],
    others: Sequence[Any],
) -> Result:
    planner = Planner(stack, sublayers, scene, others)
    past_k, past_v = _past(stack, x_BLD, keys)
    plan = planner.plan(past_k.shape[3])
    mask_TBC, rotation = _mask(stack, scene, past_k.shape[3], x_BLD), _rotation(stack, scene, x_BLD)
    made = unrolled.Unrolled.apply(plan, mask_TBC, rotation, x_BLD.transpose(0, 1), past_k, past_v, *planner.weights)
    x_TBD, k, v, m_TRBD = made  # pyright: ignore[reportGeneralTypeIssues]
    after: list[KeyValues | None] = [KeyValues(Growing.of(k[n], 2), Growing.of(v[n], 2)) for n in range(len(keys))]
    vectors = [m_TRBD[:, stream].transpose(0, 1) for stream in stack.config.streams]
    return x_TBD.transpose(0, 1), after, vectors


def _past(stack: Feedback, x_BLD: Tensor, keys: list[KeyValues | None]) -> tuple[Tensor, Tensor]:
    """Keys and values before the segment, (sets, B, G, M, K); M may be 0."""
    reader = stack.readers(0)[0]
    if keys[0] is None:
        nothing = x_BLD.new_empty(len(keys), len(x_BLD), reader.groups, 0, reader.head_dim)
        return nothing, nothing
    held = zip(keys, stack.config.holds, strict=True)
    both = [(one.k.last(most), one.v.last(most)) for one, most in held if one is not None]
    most_M = max(k_BGMK.shape[2] for k_BGMK, _ in both)
    k, v = zip(*((_padded(k, most_M), _padded(v, most_M)) for k, v in both), strict=True)
    return torch.stack(k).to(x_BLD.dtype), torch.stack(v).to(x_BLD.dtype)


def _padded(x_BGMK: Tensor, length: int) -> Tensor:
    """With zeros in front, which none of its readers sees, so that all sets are equally long."""
    return nn.functional.pad(x_BGMK, (0, 0, length - x_BGMK.shape[2], 0))


def _mask(stack: Feedback, scene: Scene, memory: int, x_BLD: Tensor) -> Tensor | None:
    """(T, B, M + T): 0 where a token may look, −∞ elsewhere; None if it sees all before it."""
    if scene.even and scene.segment_L is None:
        return None
    config = stack.readers(0)[0].config
    seen_B1LM = sight(scene, config.pattern, config.memory, memory, 1).mask_BHLM
    if seen_B1LM is None:
        return None
    hidden_LBM = ~seen_B1LM[:, 0].expand(len(x_BLD), -1, -1).transpose(0, 1)
    return torch.zeros_like(hidden_LBM, dtype=x_BLD.dtype).masked_fill_(hidden_LBM, -torch.inf)


def _rotation(stack: Feedback, scene: Scene, x_BLD: Tensor) -> tuple[Tensor, Tensor] | None:
    """Rotary's cosines and sines, (T, B or 1, K)."""
    position = stack.readers(0)[0].position
    if not isinstance(position, Rotary):
        return None
    cos_B1LK, sin_B1LK = position.angles(scene.i_BL, x_BLD.dtype)
    return cos_B1LK[:, 0].transpose(0, 1), sin_B1LK[:, 0].transpose(0, 1)


paths.register(paths.FastPath("stack", "Feedback loop in C", why_not, serves, read))
paths.register(paths.FastPath("stack", "Feedback loop in one autograd step", why_not_unrolled, serves_unrolled, read))
