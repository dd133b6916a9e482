"""Attention in C, on a CPU faster than its twin, SDPA: its work follows the bands of keys that queries see."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_double, c_int64, c_uint64, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sublayer.native import load
from sublayer.native.tensors import address, plain, watched
from sublayer.nn import paths
from sublayer.nn.attention.along import Terms, seen_by, terms_and_bias, why_no_bands
from sublayer.nn.attention.bands import ROWS, Band, dense, on_cpu
from sublayer.nn.attention.dropout import draw_seed, threshold
from sublayer.nn.attention.kernel.base import View
from sublayer.nn.attention.kernel.softmax import BANDS, DENSE
from sublayer.nn.attention.pattern.base import Bands
from sublayer.nn.scratch import scratch

if TYPE_CHECKING:
    from sublayer.nn.attention.cross import Cross
    from sublayer.nn.attention.multihead import MultiHead

SOURCE = Path(__file__).with_name("native.c")
WORTH = 2**22
"""Multiplications of q kᵀ below which it is not faster."""
WIDE, SPARE, STRIDE, TILES = 16, 64, 800, 8
"""As in native.c."""


class HeadArray(Structure):
    _fields_ = [("at", c_void_p), ("b", c_int64), ("h", c_int64), ("l", c_int64)]


class BandStruct(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("queries", "keys", "lo", "hi", "tiles", "heads")),
        ("tile_count", c_int64),
        ("key_count", c_int64),
    ]


class AttentionCall(Structure):
    _fields_ = [
        *(
            (name, c_int64)
            for name in ("batch", "heads", "groups", "length", "keys", "most", "size", "threads", "band_count")
        ),
        ("bands", POINTER(BandStruct)),
        ("scale", c_double),
        *((name, HeadArray) for name in ("q", "k", "v", "y", "to_y")),
        ("logs", c_void_p),
        ("valid", c_void_p),
        ("bias", HeadArray),
        ("to_bias", HeadArray),
        ("zero", c_int64),
        ("seed", c_uint64),
        ("drop", c_int64),
        ("undropped", c_double),
        *((name, HeadArray) for name in ("to_q", "to_k", "to_v")),
        ("room", c_void_p),
        ("private", c_int64),
    ]


def why_not(part: MultiHead | Cross, mode: paths.Mode) -> str | None:
    """Why it does not serve an attention on all keys; None if it does. A mask of one pass is known only then."""
    if mode == "generation":
        return "one token is too little work"
    if part.position.acts_on_scores:
        return f"position={part.position_tag} adds to the scores"
    return f"{part.masked} needs a mask" if part.masked is not None else _possible(part)


def why_not_bands(part: MultiHead, mode: paths.Mode) -> str | None:
    """Why it does not serve a pattern's bands; None if it does."""
    if mode == "generation":
        return "one token is too little work"
    return why_no_bands(part, mode) or _possible(part)


def _possible(part: MultiHead | Cross) -> str | None:
    if part.head_dim % WIDE:
        return f"heads of {part.head_dim} are no multiple of {WIDE}"
    return None if load(SOURCE, "attention") is not None else "there is no C compiler"


def serves(q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, dropout: float) -> bool:
    """Whether it is faster, these are plain arrays of floats, and no tracer or transform must see each operation."""
    if watched() or not all(plain(x) for x in (q_BHLK, k_BGMK, v_BGMK)):
        return False
    (L, K), M = q_BHLK.shape[-2:], k_BGMK.shape[-2]
    worth = L >= ROWS and K % WIDE == 0 and q_BHLK.numel() * M >= WORTH
    return worth and load(SOURCE, "attention") is not None


def digest() -> str | None:
    """Digest of the compiled code, on which the last bits depend; None where it is not available."""
    library = load(SOURCE, "attention")
    return None if library is None else library.digest


def attend(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BGMK: Float[Tensor, "B G M K"],
    v_BGMK: Float[Tensor, "B G M K"],
    causal: bool,
    dropout: float = 0.0,
) -> Float[Tensor, "B H L K"]:
    """On all keys, or on those up to each query's own."""
    whole = _dense(q_BHLK.shape[2], k_BGMK.shape[2], causal)
    return attend_bands(q_BHLK, k_BGMK, v_BGMK, None, Terms(whole, dropout=dropout))


@lru_cache(maxsize=64)
@on_cpu
def _dense(length: int, attended: int, causal: bool) -> tuple[Band]:
    return (dense(length, 0 if causal else attended - length, causal),)


def attend_bands(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BGMK: Float[Tensor, "B G M K"],
    v_BGMK: Float[Tensor, "B G M K"],
    bias_BHLR: Float[Tensor, "#B #H #L R"] | None,
    terms: Terms,
) -> Float[Tensor, "B H L K"]:
    """The twin of `banded.attend`."""
    return Attend.apply(q_BHLK, k_BGMK, v_BGMK, bias_BHLR, terms)  # pyright: ignore[reportReturnType]


class Attend(torch.autograd.Function):
    """softmax(q kᵀ/√K + bias) v, without a second derivative. Backward recomputes the weights from log Σ exp of each
    row."""

    @staticmethod
    def forward(
        ctx: Any, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, bias_BHLR: Tensor | None, terms: Terms
    ) -> Float[Tensor, "B H L K"]:
        qkv = [_in_rows(x) for x in (q_BHLK, k_BGMK, v_BGMK)]
        y_BHLK, logs_BHL = _empty(q_BHLK), q_BHLK.new_empty(q_BHLK.shape[:3])
        ctx.seed = draw_seed() if terms.dropout else 0
        _run("sublayer_attend", qkv, y_BHLK, logs_BHL, bias_BHLR, terms, ctx.seed)
        ctx.save_for_backward(*qkv, y_BHLK, logs_BHL, bias_BHLR)
        ctx.terms = terms
        return y_BHLK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BHLK: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        *qkv, y_BHLK, logs_BHL, bias_BHLR = ctx.saved_tensors
        grads = [_empty(x) for x in qkv]
        to_bias = None
        if ctx.needs_input_grad[3]:
            # One for each row and head, since threads share the work by them; a broadcast bias sums them afterwards.
            to_bias = bias_BHLR.new_zeros(*qkv[0].shape[:2], *bias_BHLR.shape[2:])
        _run(
            "sublayer_attend_backward",
            qkv,
            y_BHLK,
            logs_BHL,
            bias_BHLR,
            ctx.terms,
            ctx.seed,
            (_in_rows(grad_BHLK), *grads, to_bias),
        )
        return *grads, None if to_bias is None else to_bias.sum_to_size(bias_BHLR.shape), None


def _run(
    name: str,
    qkv: list[Tensor],
    y_BHLK: Tensor,
    logs_BHL: Tensor,
    bias_BHLR: Tensor | None,
    terms: Terms,
    seed: int,
    grads: tuple[Tensor | None, ...] | None = None,
) -> None:
    """grads: the output's gradient, then those of q, k, v and the bias, which are written."""
    (B, H, L, K), (G, M) = qkv[0].shape, qkv[1].shape[1:3]
    most = max([M, *(len(band.keys) for band in terms.bands if band.keys is not None)])
    threads, rows = torch.get_num_threads(), -(-most // WIDE) * WIDE + SPARE
    keys, scores = (2, 1) if grads is None else (5, 2)
    private = keys * rows * K + 3 * TILES * ROWS * K + scores * ROWS * STRIDE
    room = scratch(threads * private)
    bands, alive = _structs(terms.bands, M)
    valid_BM = None if terms.valid_BM is None else terms.valid_BM.expand(B, M).contiguous()
    to_y, to_q, to_k, to_v, to_bias = grads or (None,) * 5
    problem = AttentionCall(
        *(B, H, G, L, M, most, K, threads, len(terms.bands)),
        bands,
        K**-0.5,
        *(_heads(x) for x in (*qkv, y_BHLK, to_y)),
        logs_BHL.data_ptr(),
        address(valid_BM),
        _broadcast(bias_BHLR),
        _broadcast(to_bias),
        terms.zero,
        seed,
        threshold(terms.dropout) if terms.dropout else 0,
        1 / (1 - terms.dropout),
        *(_heads(x) for x in (to_q, to_k, to_v)),
        room.data_ptr(),
        private,
    )
    library = load(SOURCE, "attention")
    assert library is not None
    library[name](byref(problem))
    del alive


def _structs(bands: Sequence[Band], attended: int) -> tuple[Any, list[Tensor | None]]:
    """The bands as C reads them, and the tensors that must live as long."""
    structs, alive = (BandStruct * len(bands))(), []
    for n, band in enumerate(bands):
        heads = None if band.heads is None else torch.tensor(band.heads, dtype=torch.uint8)
        arrays = [band.queries, band.keys, band.lo, band.hi, band.tiles, heads]
        assert all(x is None or (x.is_contiguous() and x.dtype in (torch.int32, torch.uint8)) for x in arrays)
        count = attended if band.keys is None else len(band.keys)
        structs[n] = BandStruct(*(address(x) for x in arrays), len(band.tiles) - 1, count)
        alive += arrays
    return structs, alive


def _broadcast(bias_BHLR: Tensor | None) -> HeadArray:
    """Strides of 0 where one value serves all."""
    if bias_BHLR is None:
        return HeadArray()
    assert bias_BHLR.stride(-1) == 1
    strides = (0 if size == 1 else step for size, step in zip(bias_BHLR.shape, bias_BHLR.stride(), strict=True))
    return HeadArray(bias_BHLR.data_ptr(), *list(strides)[:3])


def _heads(x_BHLK: Tensor | None) -> HeadArray:
    return HeadArray() if x_BHLK is None else HeadArray(x_BHLK.data_ptr(), *x_BHLK.stride()[:3])


def _in_rows(x_BHLK: Tensor) -> Tensor:
    """As native.c reads it: the features of a head contiguous."""
    return x_BHLK if x_BHLK.stride(-1) == 1 else x_BHLK.contiguous()


def _empty(like_BHLK: Tensor) -> Tensor:
    """Laid out as (B, L, H, K), the order in which the output projection reads it."""
    B, H, L, K = like_BHLK.shape
    return like_BHLK.new_empty(B, L, H, K).transpose(1, 2)


def _serves_bands(q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View) -> bool:
    if not serves(q_BHLK, k_BGMK, v_BGMK, view.dropout):
        return False
    bands = seen_by(view, q_BHLK.shape[1])
    return bands is not None and _work(bands, q_BHLK.shape[1]) <= q_BHLK.shape[1] * q_BHLK.shape[2] * k_BGMK.shape[2]


def _work(bands: Bands, heads: int) -> int:
    return sum(band.once("pairs", Band.pairs) * (heads if band.heads is None else sum(band.heads)) for band in bands)


def _run_bands(q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View) -> Tensor:
    bands = seen_by(view, q_BHLK.shape[1])
    assert bands is not None
    terms, bias = terms_and_bias(q_BHLK, view, bands)
    return attend_bands(view.position.query(q_BHLK, view.scene), k_BGMK, v_BGMK, bias, terms)


paths.register(paths.FastPath(DENSE, "C attention", why_not, lambda *call: serves(*call), attend))
paths.register(paths.FastPath(BANDS, "C attention", why_not_bands, _serves_bands, _run_bands))
