"""The recurrence in C, on a CPU faster than its twin, `chunkwise`: chunks and features stay in the caches."""

from __future__ import annotations

from ctypes import Structure, byref, c_double, c_int64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sublayer.native import arrays, load
from sublayer.native.tensors import address, plain, watched
from sublayer.nn import paths
from sublayer.nn.attention.kernel.features import FeatureMap
from sublayer.nn.attention.kernel.recurrence import RECURRENCE, Found, Sums, Terms, formed
from sublayer.nn.scratch import scratch

if TYPE_CHECKING:
    from sublayer.nn.attention.multihead import MultiHead

SOURCE = Path(__file__).with_name("recurrence.c")
USER = "linear attention"
WORTH = 2**18
"""Multiplications of queries by the sums below which it is not faster."""
WIDE = 16
"""As in product.h."""
MAPS = {"elu": 1, "unit": 2, "relu": 3, "positive": 4, "waves": 5}
"""As in features.h, where 0 leaves queries and keys as they are."""


class HeadArray(Structure):
    _fields_ = [("at", c_void_p), ("b", c_int64), ("h", c_int64), ("l", c_int64)]


class MapCall(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("kind", "size", "drawn")),
        ("w", c_void_p),
        ("apart", c_int64),
        ("floor", c_double),
    ]


class RecurrenceCall(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("batch", "heads", "groups", "length", "features", "size", "threads")),
        ("map", MapCall),
        *((name, HeadArray) for name in ("q", "k", "v", "fade", "gain", "strength", "least")),
        ("eps", c_double),
        *((name, c_void_p) for name in ("s", "z", "top", "s_after", "z_after")),
        *((name, HeadArray) for name in ("tops", "errors", "y", "divisor", "to_y")),
        *((name, c_void_p) for name in ("to_s_after", "to_z_after")),
        *((name, HeadArray) for name in ("to_q", "to_k", "to_v", "to_strength", "to_least", "asked", "gave")),
        *((name, c_void_p) for name in ("to_w", "to_s", "to_z", "room")),
        ("private", c_int64),
    ]


GIVEN = ("q", "k", "v", "w", "fade", "gain", "strength", "least", "s", "z")
"""Arrays that may have a gradient."""
BY_HEADS = {field[0] for field in RecurrenceCall._fields_ if field[1] is HeadArray}
"""Arrays of heads and tokens; the others are contiguous as a whole."""


def why_not(part: MultiHead, mode: paths.Mode) -> str | None:
    """Why it does not serve an attention; None if it does."""
    config, K = part.config.kernel, part.head_dim
    if mode == "generation":
        return "one token is too little work"
    if K % WIDE or config.width(K) % WIDE:  # pyright: ignore[reportAttributeAccessIssue]
        return f"features of heads of {K} are no multiple of {WIDE}"
    return None if load(SOURCE, USER) is not None else "there is no C compiler"


def serves(terms: Terms, before: Sums) -> bool:
    """Whether it is faster, these are plain arrays of floats, and no tracer or transform must see each operation."""
    if watched() or (terms.strength_BGL is not None and terms.gain_BGL is not None):
        return False
    given = terms.q_BHLX, terms.k_BGLX, terms.v_BGLK, terms.fade_BGL, terms.gain_BGL, terms.strength_BGL
    given += terms.least_BGL, before.s_BGFK, before.z_BGF, before.top_BG
    if not all(x is None or plain(x) for x in given):
        return False
    (B, H, L, _), (F, K) = terms.q_BHLX.shape, before.s_BGFK.shape[-2:]
    worth = F % WIDE == 0 and K % WIDE == 0 and B * H * L * F * K >= WORTH and L >= WIDE
    return worth and load(SOURCE, USER) is not None


def run(terms: Terms, before: Sums) -> Found:
    top_BG = None
    if not _formed_in_c(terms.features, terms.q_BHLX.shape[-1]):
        terms, top_BG = formed(terms, before)
    w_GFK = None if terms.features is None else terms.features.w_GFK
    given = terms.q_BHLX, terms.k_BGLX, terms.v_BGLK, w_GFK, terms.fade_BGL, terms.gain_BGL
    given += terms.strength_BGL, terms.least_BGL, before.s_BGFK, before.z_BGF
    trains = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
    top_before = before.top_BG if terms.exponents else None
    options = Options(terms.features, terms.eps or 0.0, top_before, trains)
    y_BHLK, s_BGFK, z_BGF, tops_BGL = Recur.apply(options, *given)  # pyright: ignore[reportGeneralTypeIssues]
    return y_BHLK, Sums(s_BGFK, z_BGF, top_BG if tops_BGL is None else tops_BGL[..., -1])


def _formed_in_c(features: FeatureMap | None, size: int) -> bool:
    if features is None:
        return True
    w_GFK = features.w_GFK
    whole = w_GFK is None or (plain(w_GFK) and w_GFK.shape[1] % WIDE == 0)
    return features.native in MAPS and size % WIDE == 0 and whole


@dataclass(frozen=True)
class Options:
    """What C is given beside tensors that have a gradient."""

    features: FeatureMap | None
    eps: float
    top_BG: Tensor | None
    """The largest exponent before the segment."""
    trains: bool
    """Whether a backward pass may follow."""


class Recur(torch.autograd.Function):
    """Without a second derivative; backward forms features and sums again."""

    @staticmethod
    def forward(ctx: Any, options: Options, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        there = dict(zip(GIVEN, given, strict=True))
        there |= {name: _in_rows(there[name]) for name in ("q", "k", "v")}
        there |= {name: _whole(there[name]) for name in ("w", "s", "z")}
        q, v, z = there["q"], there["v"], there["z"]
        assert q is not None
        assert v is not None
        (B, H, L, _), (_, G, _, K) = q.shape, v.shape
        divides, corrects = z is not None or options.eps > 0, there["strength"] is not None
        there |= {
            "top": _whole(options.top_BG),
            "y": arrays.empty(B, L, H, K, like=q).transpose(1, 2),
            "divisor": q.new_empty(B, H, L) if divides else None,
            "tops": None if options.top_BG is None else q.new_empty(B, G, L),
            "errors": arrays.empty(B, L, G, K, like=q).transpose(1, 2) if corrects and options.trains else None,
            "s_after": _like(there["s"]),
            "z_after": _like(z),
        }
        _call("sublayer_recur", options, there)
        ctx.options, ctx.names = options, list(there)
        ctx.save_for_backward(*there.values())
        if there["tops"] is not None:
            ctx.mark_non_differentiable(there["tops"])
        return tuple(there[name] for name in ("y", "s_after", "z_after", "tops"))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        there: dict[str, Tensor | None] = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        there |= {"to_y": _in_rows(grads[0]), "to_s_after": _whole(grads[1]), "to_z_after": _whole(grads[2])}
        wanted = {name for name, needed in zip(GIVEN, ctx.needs_input_grad[1:], strict=True) if needed}
        k, w = there["k"], there["w"]
        assert k is not None
        zeros = k.new_zeros(k.shape[:3])
        of_w = None if w is None else k.new_zeros(*k.shape[:2], *w.shape[1:])
        found = {f"to_{name}": _like(there[name]) for name in ("q", "k", "v", "s", "z")}
        found["to_w"] = of_w if "w" in wanted else None
        found |= {f"to_{name}": zeros.clone() if name in wanted else None for name in ("strength", "least")}
        found["asked"] = zeros.clone() if "fade" in wanted else None
        found["gave"] = zeros.clone() if wanted & {"fade", "gain"} else None
        _call("sublayer_recur_backward", ctx.options, there | found)
        found["to_fade"] = _of_fade(there | found) if "fade" in wanted else None
        found["to_gain"] = found["gave"] if "gain" in wanted else None
        if (of_w := found["to_w"]) is not None and w is not None:
            found["to_w"] = of_w.sum(0).sum_to_size(w.shape)
        return None, *(found[f"to_{name}"] for name in GIVEN)


def _of_fade(there: dict[str, Any]) -> Tensor:
    """A_t, the sum of log a so far, is in y_t as a factor e^(A_t), and in what token t gave as e^(−A_t)."""
    to_sum_BGL = there["asked"] - there["gave"]
    for name in ("s", "z"):
        after, to_after = there[f"{name}_after"], there[f"to_{name}_after"]
        if after is not None and to_after is not None:
            to_sum_BGL[..., -1] += (after * to_after).flatten(2).sum(-1)
    return to_sum_BGL.flip(-1).cumsum(-1).flip(-1)


def _call(name: str, options: Options, given: dict[str, Tensor | None]) -> None:
    q, k, s, w = (given[field] for field in ("q", "k", "s", "w"))
    assert q is not None
    assert k is not None
    assert s is not None
    (B, H, L, X), G, (F, K) = q.shape, k.shape[1], s.shape[-2:]
    threads = min(torch.get_num_threads(), B * G)
    call = RecurrenceCall(B, H, G, L, F, K, threads, eps=options.eps)
    call.map = _map(options.features, X, w)
    for field, x in given.items():
        if field != "w":
            setattr(call, field, _heads(x) if field in BY_HEADS else address(x))
    library = load(SOURCE, USER)
    assert library is not None
    size = library["sublayer_recur_room"]
    size.restype = c_int64
    call.private = size(byref(call))
    room = scratch(threads * call.private)
    call.room = room.data_ptr()
    library[name](byref(call))


def _map(features: FeatureMap | None, size: int, w_GFK: Tensor | None) -> MapCall:
    kind = 0 if features is None or features.native is None else MAPS[features.native]
    floor = 0.0 if features is None else features.floor
    if w_GFK is None:
        return MapCall(kind, size, floor=floor)
    apart = 0 if len(w_GFK) == 1 else w_GFK.stride(0)
    return MapCall(kind, size, w_GFK.shape[1], address(w_GFK), apart, floor)


def _heads(x: Tensor | None) -> HeadArray:
    return HeadArray() if x is None else HeadArray(x.data_ptr(), *x.stride()[:3])


def _in_rows(x: Tensor | None) -> Tensor | None:
    """As recurrence.c reads it: the features of a head contiguous."""
    return x if x is None or x.stride(-1) == 1 else x.contiguous()


def _whole(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _like(x: Tensor | None) -> Tensor | None:
    return None if x is None else arrays.empty_like(x)


paths.register(paths.FastPath(RECURRENCE, "C recurrence", why_not, serves, run))
