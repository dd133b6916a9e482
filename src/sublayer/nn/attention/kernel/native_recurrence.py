"""The recurrence in C, on a CPU faster than its twin, `chunkwise`: a chunk stays in the processor's caches."""

from __future__ import annotations

from ctypes import Structure, byref, c_int64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sublayer.native import load
from sublayer.native.tensors import address, plain, watched
from sublayer.nn import paths
from sublayer.nn.attention.kernel.recurrence import RECURRENCE, Found, Sums, Terms
from sublayer.nn.scratch import scratch

if TYPE_CHECKING:
    from sublayer.nn.attention.multihead import MultiHead

SOURCE = Path(__file__).with_name("recurrence.c")
WORTH = 2**18
"""Multiplications of queries by the sums below which it is not faster."""
WIDE, CHUNK, HIGH, TALL = 16, 64, 72, 8
"""As in recurrence.c, TALL at most."""
WHOLE = ("s", "z", "s_after", "z_after", "to_s_after", "to_z_after", "to_s", "to_z")
"""Arrays that are contiguous as a whole."""


class HeadArray(Structure):
    _fields_ = [("at", c_void_p), ("b", c_int64), ("h", c_int64), ("l", c_int64)]


class RecurrenceCall(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("batch", "heads", "groups", "length", "features", "size", "threads")),
        *((name, HeadArray) for name in ("q", "k", "v", "fade")),
        *((name, c_void_p) for name in ("s", "z", "s_after", "z_after")),
        *((name, HeadArray) for name in ("y", "weight", "to_y", "to_weight")),
        *((name, c_void_p) for name in ("to_s_after", "to_z_after")),
        *((name, HeadArray) for name in ("to_q", "to_k", "to_v")),
        *((name, c_void_p) for name in ("to_s", "to_z", "room")),
        ("private", c_int64),
    ]


def why_not(part: MultiHead, mode: paths.Mode) -> str | None:
    """Why it does not serve an attention; None if it does."""
    config, K = part.config.kernel, part.head_dim
    if mode == "generation":
        return "one token is too little work"
    if config.corrects:  # pyright: ignore[reportAttributeAccessIssue]
        return "it does not know the delta rule"
    if K % WIDE or config.width(K) % WIDE:  # pyright: ignore[reportAttributeAccessIssue]
        return f"features of heads of {K} are no multiple of {WIDE}"
    return None if load(SOURCE, "linear attention") is not None else "there is no C compiler"


def serves(terms: Terms, before: Sums) -> bool:
    """Whether it is faster, these are plain arrays of floats, and no tracer or transform must see each operation."""
    if terms.strength_BGL is not None or watched():
        return False
    arrays = (terms.q_BHLF, terms.k_BGLF, terms.v_BGLK, terms.fade_BGL, before.s_BGFK, before.z_BGF)
    if not all(x is None or plain(x) for x in arrays):
        return False
    F, K = before.s_BGFK.shape[-2:]
    worth = F % WIDE == 0 and K % WIDE == 0 and terms.q_BHLF.numel() * K >= WORTH and terms.q_BHLF.shape[2] >= WIDE
    return worth and load(SOURCE, "linear attention") is not None


def run(terms: Terms, before: Sums) -> Found:
    given = terms.q_BHLF, terms.k_BGLF, terms.v_BGLK, terms.fade_BGL, before.s_BGFK, before.z_BGF
    y_BHLK, weight_BHL1, s_BGFK, z_BGF = Recur.apply(*given)  # pyright: ignore[reportGeneralTypeIssues]
    return y_BHLK, weight_BHL1, Sums(s_BGFK, z_BGF)


class Recur(torch.autograd.Function):
    """Without a second derivative; backward recomputes the sums."""

    @staticmethod
    def forward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v = (_in_rows(x) for x in given[:3] if x is not None)
        fade, s, z = (None if x is None else x.contiguous() for x in given[3:])
        assert s is not None
        (B, H, L, _), K = q.shape, v.shape[-1]
        y = q.new_empty(B, L, H, K).transpose(1, 2)
        weight = None if z is None else q.new_empty(B, H, L, 1)
        s_after, z_after = torch.empty_like(s), None if z is None else torch.empty_like(z)
        arrays = {"q": q, "k": k, "v": v, "fade": fade, "s": s, "z": z}
        _call("sublayer_recur", {**arrays, "s_after": s_after, "z_after": z_after, "y": y, "weight": weight})
        ctx.save_for_backward(q, k, v, fade, s, z, s_after, z_after)
        return y, weight, s_after, z_after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, fade, s, z, s_after, z_after = ctx.saved_tensors
        to_y, to_weight, to_s_after, to_z_after = (None if x is None else x.contiguous() for x in grads)
        to_q, to_k, to_v = (torch.empty_like(x) for x in (q, k, v))
        to_s, to_z = torch.empty_like(s), None if z is None else torch.empty_like(z)
        assert to_y is not None
        _call(
            "sublayer_recur_backward",
            {"q": q, "k": k, "v": v, "fade": fade, "s": s, "z": z, "to_y": to_y, "to_weight": to_weight}
            | {"to_s_after": to_s_after, "to_z_after": to_z_after}
            | {"to_q": to_q, "to_k": to_k, "to_v": to_v, "to_s": to_s, "to_z": to_z},
        )
        to_fade = None
        if ctx.needs_input_grad[3]:
            # A_t, the sum of log a so far, is in y_t as a factor e^(A_t), and in what key t gave as e^(−A_t).
            asked_BGL = (q * to_q).sum(-1).unflatten(1, (k.shape[1], -1)).sum(2)
            to_sum_BGL = asked_BGL - (k * to_k).sum(-1)
            for after, to_after in ((s_after, to_s_after), (z_after, to_z_after)):
                if after is not None and to_after is not None:
                    to_sum_BGL[..., -1] += (after * to_after).flatten(2).sum(-1)
            to_fade = to_sum_BGL.flip(-1).cumsum(-1).flip(-1)
        return to_q, to_k, to_v, to_fade, to_s, to_z


def _call(name: str, arrays: dict[str, Tensor | None]) -> None:
    q, k, v = (arrays[name] for name in ("q", "k", "v"))
    assert q is not None
    assert k is not None
    assert v is not None
    (B, H, L, F), G, K = q.shape, k.shape[1], v.shape[-1]
    threads = min(torch.get_num_threads(), B * G)
    wide = -(-max(F, K) // WIDE) * WIDE
    private = HIGH * (4 * F + 4 * K + wide + 3 * CHUNK) + (2 * F + TALL) * K + F + 16 * WIDE
    room = scratch(threads * private)
    call = RecurrenceCall(batch=B, heads=H, groups=G, length=L, features=F, size=K, threads=threads, private=private)
    call.room = room.data_ptr()
    for field, x in arrays.items():
        setattr(call, field, address(x) if field in WHOLE else _heads(x))
    library = load(SOURCE, "linear attention")
    assert library is not None
    library[name](byref(call))


def _heads(x: Tensor | None) -> HeadArray:
    return HeadArray() if x is None else HeadArray(x.data_ptr(), *x.stride()[:3])


def _in_rows(x: Tensor) -> Tensor:
    """As recurrence.c reads it: the features of a head contiguous."""
    return x if x.stride(-1) == 1 else x.contiguous()


paths.register(paths.FastPath(RECURRENCE, "C recurrence", why_not, serves, run))
