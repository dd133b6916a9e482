"""Attention without bias, mask or dropout in C, on a CPU faster than its twin, SDPA."""

from __future__ import annotations

from ctypes import Structure, byref, c_double, c_int64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sublayer.native import load
from sublayer.native.tensors import plain, watched
from sublayer.nn import paths
from sublayer.nn.attention.kernel.softmax import DENSE
from sublayer.nn.scratch import scratch

if TYPE_CHECKING:
    from sublayer.nn.attention.cross import Cross
    from sublayer.nn.attention.multihead import MultiHead

SOURCE = Path(__file__).with_name("native.c")
WORTH = 2**22
"""Multiplications of q kᵀ below which it is not faster."""
ROWS, WIDE, BOTH = 24, 16, 48
"""As in native.c."""


class HeadArray(Structure):
    _fields_ = [("at", c_void_p), ("b", c_int64), ("h", c_int64), ("l", c_int64)]


class AttentionCall(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("batch", "heads", "groups", "length", "keys", "size", "causal", "threads")),
        ("scale", c_double),
        *((name, HeadArray) for name in ("q", "k", "v", "y")),
        ("logs", c_void_p),
        *((name, HeadArray) for name in ("to_q", "to_k", "to_v")),
        ("room", c_void_p),
        ("private", c_int64),
    ]


def why_not(part: MultiHead | Cross, mode: paths.Mode) -> str | None:
    """Why it does not serve an attention; None if it does. A mask of one pass, as for padding, is known only then."""
    config = part.config
    if mode == "generation":
        return "one token is too little work"
    if config.dropout:
        return f"dropout={config.dropout:g} on the weights"
    if part.position.acts_on_scores:
        return f"position={part.position_tag} adds to the scores"
    if part.masked is not None:
        return f"{part.masked} needs a mask"
    if part.head_dim % WIDE:
        return f"heads of {part.head_dim} are no multiple of {WIDE}"
    return None if load(SOURCE, "attention") is not None else "there is no C compiler"


def serves(q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, dropout: float) -> bool:
    """Whether it is faster, these are plain arrays of floats, and no tracer or transform must see each operation."""
    if dropout or watched() or not all(plain(x) for x in (q_BHLK, k_BGMK, v_BGMK)):
        return False
    (L, K), M = q_BHLK.shape[-2:], k_BGMK.shape[-2]
    worth = L >= ROWS and K % WIDE == 0 and q_BHLK.numel() * M >= WORTH
    return worth and load(SOURCE, "attention") is not None


def digest() -> str | None:
    """Digest of the compiled code, on which the last bits depend; None where it is not available."""
    library = load(SOURCE, "attention")
    return None if library is None else library.digest


def attend(
    q_BHLK: Float[Tensor, "B H L K"], k_BGMK: Float[Tensor, "B G M K"], v_BGMK: Float[Tensor, "B G M K"], causal: bool
) -> Float[Tensor, "B H L K"]:
    return Attend.apply(q_BHLK, k_BGMK, v_BGMK, causal)  # pyright: ignore[reportReturnType]


class Attend(torch.autograd.Function):
    """softmax(q kᵀ/√K) v, without a second derivative. Backward recomputes the weights from log Σ exp of each row."""

    @staticmethod
    def forward(ctx: Any, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, causal: bool) -> Float[Tensor, "B H L K"]:
        qkv = [_in_rows(x) for x in (q_BHLK, k_BGMK, v_BGMK)]
        y_BHLK, logs_BHL = _empty(q_BHLK), q_BHLK.new_empty(q_BHLK.shape[:3])
        _run("sublayer_attend", qkv, y_BHLK, logs_BHL, causal)
        ctx.save_for_backward(*qkv, logs_BHL)
        ctx.causal = causal
        return y_BHLK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BHLK: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        *qkv, logs_BHL = ctx.saved_tensors
        grads = [_empty(x) for x in qkv]
        _run("sublayer_attend_backward", qkv, _in_rows(grad_BHLK), logs_BHL, ctx.causal, grads)
        return *grads, None


def _run(
    name: str, qkv: list[Tensor], y_BHLK: Tensor, logs_BHL: Tensor, causal: bool, grads: list[Tensor] | None = None
) -> None:
    """`y` is the output; with `grads`, it is the output's gradient, and `grads` are written."""
    (B, H, L, K), (G, M) = qkv[0].shape, qkv[1].shape[1:3]
    threads, whole = torch.get_num_threads(), -(-M // BOTH) * BOTH
    keys, scores = (2, 1) if grads is None else (5, 2)
    private = keys * whole * K + 3 * ROWS * K + scores * ROWS * whole
    room = scratch(threads * private)
    heads = [_heads(x) for x in (*qkv, y_BHLK)]
    written = [HeadArray()] * 3 if grads is None else [_heads(x) for x in grads]
    sizes = B, H, G, L, M, K, causal, threads, K**-0.5
    problem = AttentionCall(*sizes, *heads, logs_BHL.data_ptr(), *written, room.data_ptr(), private)
    library = load(SOURCE, "attention")
    assert library is not None
    library[name](byref(problem))


def _heads(x_BHLK: Tensor) -> HeadArray:
    return HeadArray(x_BHLK.data_ptr(), *x_BHLK.stride()[:3])


def _in_rows(x_BHLK: Tensor) -> Tensor:
    """As native.c reads it: the features of a head contiguous."""
    return x_BHLK if x_BHLK.stride(-1) == 1 else x_BHLK.contiguous()


def _empty(like_BHLK: Tensor) -> Tensor:
    """Laid out as (B, L, H, K), the order in which the output projection reads it."""
    B, H, L, K = like_BHLK.shape
    return like_BHLK.new_empty(B, L, H, K).transpose(1, 2)


paths.register(paths.FastPath(DENSE, "C attention", why_not, lambda *call: serves(*call), attend))
