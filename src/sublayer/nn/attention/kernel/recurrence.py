"""Attention without softmax as a recurrence: what linear, random-feature, decaying and delta-rule kernels share.

    S_t = a_t S_{t−1} + k_t (b_t (v_t − (a_t S_{t−1})ᵀ k_t))ᵀ    by the delta rule, with strength b_t
    S_t = a_t S_{t−1} + k_t v_tᵀ                                without
    z_t = a_t z_{t−1} + k_t
    y_t = S_tᵀ q_t, divided by z_t · q_t where weights are to sum to one, or by its own root mean square

q and k are features of what is given. `chunkwise` computes all tokens of a chunk at once as masked attention, and goes
from chunk to chunk by the sums; its work is linear in the length. `one_by_one` is the recurrence as written, its slow
twin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.attention.kernel.features import FeatureMap
from sublayer.nn.state import PartState

RECURRENCE = "recurrence"
"""The job of paths that do `chunkwise` faster: (terms, before), then run(terms, before)."""
CHUNK = 64
"""Tokens that meet each other directly; those of other chunks meet in the sums."""


@dataclass(frozen=True)
class Terms:
    """What the recurrence is given of one segment. On padding the gain is −∞ and log a is 0, or b is 0: it changes
    nothing."""

    q_BHLX: Tensor
    k_BGLX: Tensor
    v_BGLK: Tensor
    features: FeatureMap | None = None
    """Of queries and keys; None: they are given."""
    fade_BGL: Tensor | None = None
    """log a ≤ 0; None: nothing fades."""
    gain_BGL: Tensor | None = None
    """log of a factor of each key; None: all are 1. Not with the delta rule."""
    strength_BGL: Tensor | None = None
    """b of the delta rule; None: without it."""
    least_BGL: Tensor | None = None
    """What each query's weights sum to at least; None: they are positive."""
    eps: float | None = None
    """Added to the mean square of y, by whose root it is divided; None: it is not."""

    @property
    def exponents(self) -> bool:
        return self.features is not None and self.features.exponents

    def zeros(self, normed: bool, width: int) -> Sums:
        """Before the first token. normed: whether weights sum to one; width: features of a key."""
        B, G = self.k_BGLX.shape[:2]
        new = self.k_BGLX.new_zeros
        top_BG = new(B, G).fill_(-torch.inf) if self.exponents else None
        return Sums(new(B, G, width, self.v_BGLK.shape[-1]), new(B, G, width) if normed else None, top_BG)


@dataclass(frozen=True)
class Sums(PartState):
    """Over all tokens so far."""

    s_BGFK: Float[Tensor, "B G F K"]
    z_BGF: Float[Tensor, "B G F"] | None = None
    top_BG: Float[Tensor, "B G"] | None = None
    """The largest exponent, by whose exponential they are divided."""
    more_BG: Float[Tensor, "B G"] | None = None
    """What a kernel carries beside them."""


Found = tuple[Float[Tensor, "B H L K"], Sums]
"""The outputs, and the sums after the last token."""
Form = Callable[[Terms, Sums], Found]


def formed(terms: Terms, before: Sums, causal: bool = True) -> tuple[Terms, Tensor | None]:
    """With queries and keys as features, and without a gain; and the largest exponent after the segment."""
    if terms.features is None and terms.gain_BGL is None:
        return terms, None
    q, k = terms.q_BHLX, terms.k_BGLX
    q, k = (q, k) if terms.features is None else (terms.features(q), terms.features(k))
    fade, top_BG = terms.fade_BGL, None
    if terms.exponents:
        q = (q - q.detach().amax(-1, keepdim=True)).exp()
        top_BGX = _largest_so_far(k, terms.gain_BGL, before, causal)
        top_BG, tops = top_BGX[..., -1], top_BGX[..., 1:]
        # Before the first key there is nothing to fade.
        grown = (top_BGX[..., :-1] - tops).masked_fill(top_BGX[..., :-1].isinf(), 0) if causal else None
        fade = fade if grown is None else grown if fade is None else fade + grown
        k = (k - tops.masked_fill(tops.isinf(), 0)[..., None]).masked_fill(_hidden(terms.gain_BGL, k), -torch.inf).exp()
    k = k if terms.gain_BGL is None else k * terms.gain_BGL.exp()[..., None]
    return replace(terms, q_BHLX=q, k_BGLX=k, features=None, fade_BGL=fade, gain_BGL=None), top_BG


def _largest_so_far(exponents_BGLF: Tensor, gain_BGL: Tensor | None, before: Sums, causal: bool) -> Tensor:
    """Before the first token and after each; after all of them, where tokens see later ones."""
    own_BGL = exponents_BGLF.detach().masked_fill(_hidden(gain_BGL, exponents_BGLF), -torch.inf).amax(-1)
    assert before.top_BG is not None
    top_BGX = torch.cat([before.top_BG[..., None], own_BGL], dim=-1)
    return top_BGX.cummax(-1).values if causal else top_BGX.amax(-1, keepdim=True).expand_as(top_BGX)


def _hidden(gain_BGL: Tensor | None, k_BGLF: Tensor) -> Tensor:
    """Keys whose factor is 0."""
    return k_BGLF.new_zeros((), dtype=torch.bool) if gain_BGL is None else gain_BGL.isneginf()[..., None]


def divided(y_BHLK: Tensor, weight_BHL1: Tensor | None, terms: Terms) -> Tensor:
    """The output from S_tᵀ q_t and z_t · q_t."""
    if weight_BHL1 is None:
        return y_BHLK if terms.eps is None else F.rms_norm(y_BHLK, y_BHLK.shape[-1:], eps=terms.eps)
    if terms.least_BGL is not None:
        least_BHL = terms.least_BGL.repeat_interleave(y_BHLK.shape[1] // terms.least_BGL.shape[1], dim=1)
        weight_BHL1 = torch.maximum(weight_BHL1, least_BHL[..., None])
    return y_BHLK / weight_BHL1.clamp(min=torch.finfo(y_BHLK.dtype).tiny)


def one_by_one(terms: Terms, before: Sums) -> Found:
    """Token after token."""
    terms, top_BG = formed(terms, before)
    r = terms.q_BHLX.shape[1] // terms.k_BGLX.shape[1]
    s, z, ys, weights = before.s_BGFK, before.z_BGF, [], []
    for t in range(terms.k_BGLX.shape[2]):
        q, k, v = terms.q_BHLX[:, :, t], terms.k_BGLX[:, :, t], terms.v_BGLK[:, :, t]
        if terms.fade_BGL is not None:
            a = terms.fade_BGL[:, :, t, None].exp()
            s, z = s * a[..., None], None if z is None else z * a
        if terms.strength_BGL is not None:
            v = terms.strength_BGL[:, :, t, None] * (v - torch.einsum("bgfk,bgf->bgk", s, k))
        s, z = s + k[..., None] * v[..., None, :], None if z is None else z + k
        ys.append(torch.einsum("bhf,bhfk->bhk", q, s.repeat_interleave(r, dim=1)))
        weights.append(ys[-1][..., :1] if z is None else (q * z.repeat_interleave(r, dim=1)).sum(-1, keepdim=True))
    return divided(torch.stack(ys, 2), None if z is None else torch.stack(weights, 2), terms), Sums(s, z, top_BG)


def all_pairs(terms: Terms, before: Sums) -> Found:
    """Every query on every key of the segment."""
    terms, _ = formed(terms, before, causal=False)
    r = terms.q_BHLX.shape[1] // terms.k_BGLX.shape[1]
    k_BHLF, v_BHLK = (x.repeat_interleave(r, dim=1) for x in (terms.k_BGLX, terms.v_BGLK))
    scores_BHLL = terms.q_BHLX @ k_BHLF.transpose(-1, -2)
    weight = None if before.z_BGF is None else scores_BHLL.sum(-1, keepdim=True)
    return divided(scores_BHLL @ v_BHLK, weight, terms), before


def both_ways(terms: Terms, before: Sums) -> Found:
    """Every query sees all tokens; nothing fades."""
    terms, top_BG = formed(terms, before, causal=False)
    z_BGF = None if before.z_BGF is None else before.z_BGF + terms.k_BGLX.sum(2)
    after = Sums(before.s_BGFK + terms.k_BGLX.transpose(-1, -2) @ terms.v_BGLK, z_BGF, top_BG)
    (B, H, L, _), G = terms.q_BHLX.shape, terms.k_BGLX.shape[1]
    q_BGRF = terms.q_BHLX.reshape(B, G, H // G * L, -1)
    weight = None if z_BGF is None else (q_BGRF @ z_BGF[..., None]).view(B, H, L, 1)
    return divided((q_BGRF @ after.s_BGFK).view(B, H, L, -1), weight, terms), after


def sizes(length: int) -> tuple[int, int]:
    """How many chunks, and of how many tokens; the last is filled up with padding."""
    n = -(-length // CHUNK)
    return n, -(-length // n)


def chunkwise(terms: Terms, before: Sums) -> Found:
    """Queries on the keys of their chunk, and on the sums of the chunks before.

    With A_t = Σ_{u ≤ t} log a_u within the chunk, key j has faded by e^(A_i − A_j) for query i, the sums by e^(A_i).
    """
    terms, top_BG = formed(terms, before)
    (H, L), G = terms.q_BHLX.shape[1:3], terms.k_BGLX.shape[1]
    n, T = sizes(L)
    q = _chunks(terms.q_BHLX, n, T).unflatten(1, (G, H // G)).transpose(2, 3)  # (B, G, n, r, T, F)
    k, v = _chunks(terms.k_BGLX, n, T), _chunks(terms.v_BGLK, n, T)
    faded, faded_to_end, between, end = k, k, None, None
    if terms.fade_BGL is not None:
        sum_BGnT = _chunks(terms.fade_BGL[..., None], n, T)[..., 0].cumsum(-1)
        q_sums = q * sum_BGnT.exp()[..., None, :, None]
        ends = sum_BGnT[..., -1:]
        faded, faded_to_end = k * sum_BGnT.exp()[..., None], k * (ends - sum_BGnT).exp()[..., None]
        above = torch.ones(T, T, dtype=torch.bool, device=k.device).triu(1)
        between = (sum_BGnT[..., :, None] - sum_BGnT[..., None, :]).masked_fill(above, -torch.inf).exp()
        end = ends.exp()
    else:
        q_sums = q
    if terms.strength_BGL is not None:
        v, written = _by_the_delta_rule(k, faded, v, _chunks(terms.strength_BGL[..., None], n, T), between)
        v, s_BGnFK, last = _correct(v, written, faded_to_end, end, before.s_BGFK)
    else:
        s_BGnFK, last = _running(before.s_BGFK, faded_to_end.transpose(-1, -2) @ v, end)
    scores = q.flatten(3, 4) @ k.transpose(-1, -2)
    scores = scores.unflatten(3, (H // G, T))
    scores = scores.tril() if between is None else scores * between[:, :, :, None]
    y = scores.flatten(3, 4) @ v + q_sums.flatten(3, 4) @ s_BGnFK
    weight, z_BGF = None, None
    if before.z_BGF is not None:
        z_BGnF, z_BGF = _running(before.z_BGF[..., None], faded_to_end.sum(3)[..., None], end)
        weight = _tokens(scores.sum(-1, keepdim=True).flatten(3, 4) + q_sums.flatten(3, 4) @ z_BGnF, H // G, L)
        z_BGF = z_BGF[..., 0]
    return divided(_tokens(y, H // G, L), weight, terms), Sums(last, z_BGF, top_BG)


def _chunks(x_BHLX: Tensor, n: int, T: int) -> Tensor:
    """(B, H, n, T, X)."""
    x_BHLX = F.pad(x_BHLX, (0, 0, 0, n * T - x_BHLX.shape[2])) if n * T > x_BHLX.shape[2] else x_BHLX
    return x_BHLX.unflatten(2, (n, T))


def _tokens(x_BGnRX: Tensor, r: int, length: int) -> Tensor:
    """(B, H, L, X) of rows that are r heads' tokens."""
    x = x_BGnRX.unflatten(3, (r, -1)).transpose(2, 3)  # (B, G, r, n, T, X)
    return x.flatten(3, 4).flatten(1, 2)[:, :, :length]


def _running(before: Tensor, added_BGnFX: Tensor, end: Tensor | None) -> tuple[Tensor, Tensor]:
    """What stands before each chunk, and after the last."""
    if end is None:
        sums = torch.cat([before[:, :, None], added_BGnFX], dim=2).cumsum(2)
        return sums[:, :, :-1], sums[:, :, -1]
    found = [before]
    for added, left in zip(added_BGnFX.unbind(2), end[..., None].unbind(2), strict=True):  # not by index: slow backward
        found.append(torch.addcmul(added, found[-1], left))
    return torch.stack(found[:-1], dim=2), found[-1]


def _by_the_delta_rule(
    k: Tensor, faded: Tensor, v: Tensor, strength: Tensor, between: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What a chunk writes if nothing stood before it, and what it takes from the sums before: (I + A)⁻¹ b v and
    (I + A)⁻¹ b k, where A_ij = b_i (k_i · k_j) faded, j < i (Yang et al. 2024, section 3.2)."""
    met = (k @ k.transpose(-1, -2)) * strength
    met = (met if between is None else met * between).tril(-1)
    K = v.shape[-1]
    solved = torch.linalg.solve_triangular(met, torch.cat([v, faded], -1) * strength, upper=False, unitriangular=True)
    return solved[..., :K], solved[..., K:]


def _correct(
    v: Tensor, taken: Tensor, faded_to_end: Tensor, end: Tensor | None, s_BGFK: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What each chunk writes, the sums before each, and those after the last."""
    written, sums = [], [s_BGFK]
    kept = (None,) * v.shape[2] if end is None else end[..., None].unbind(2)
    for new, old, k, left in zip(v.unbind(2), taken.unbind(2), faded_to_end.unbind(2), kept, strict=True):
        s = sums[-1]
        written.append(new - old @ s)
        sums.append((s if left is None else s * left) + k.transpose(-1, -2) @ written[-1])
    return torch.stack(written, 2), torch.stack(sums[:-1], 2), sums[-1]
