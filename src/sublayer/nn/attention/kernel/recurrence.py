"""Attention without softmax as a recurrence: what linear, random-feature, decaying and delta-rule kernels share.

    S_t = a_t S_{t−1} + k_t (b_t (v_t − (a_t S_{t−1})ᵀ k_t))ᵀ    by the delta rule, with strength b_t
    S_t = a_t S_{t−1} + k_t v_tᵀ                                without
    z_t = a_t z_{t−1} + k_t
    y_t = S_tᵀ q_t, divided by z_t · q_t where weights are to sum to one

`chunkwise` computes all tokens of a chunk at once as masked attention, and goes from chunk to chunk by the sums; its
work is linear in the length. `one_by_one` is the recurrence as written, its slow twin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.state import PartState

RECURRENCE = "recurrence"
"""The job of paths that do `chunkwise` faster: (terms, before), then run(terms, before)."""
CHUNK = 64
"""Tokens that meet each other directly; those of other chunks meet in the sums."""


@dataclass(frozen=True)
class Terms:
    """What the recurrence is given of one segment. Padding has k = 0, log a = 0 and b = 0, and so changes nothing."""

    q_BHLF: Tensor
    k_BGLF: Tensor
    v_BGLK: Tensor
    fade_BGL: Tensor | None = None
    """log a ≤ 0; None: nothing fades."""
    strength_BGL: Tensor | None = None
    """b of the delta rule; None: without it."""
    least_BGL: Tensor | None = None
    """What each query's weights sum to at least; None: they are positive."""

    def zeros(self, normed: bool) -> Sums:
        B, G, _, F = self.k_BGLF.shape
        z_BGF = self.k_BGLF.new_zeros(B, G, F) if normed else None
        return Sums(self.k_BGLF.new_zeros(B, G, F, self.v_BGLK.shape[-1]), z_BGF)


@dataclass(frozen=True)
class Sums(PartState):
    """Over all tokens so far."""

    s_BGFK: Float[Tensor, "B G F K"]
    z_BGF: Float[Tensor, "B G F"] | None = None
    more_BG: Float[Tensor, "B G"] | None = None
    """What a kernel carries beside them."""


Found = tuple[Float[Tensor, "B H L K"], Float[Tensor, "B H L 1"] | None, Sums]
"""S_tᵀ q_t and z_t · q_t of every token, and the sums after the last."""
Form = Callable[[Terms, Sums], Found]


def one_by_one(terms: Terms, before: Sums) -> Found:
    """Token after token."""
    r = terms.q_BHLF.shape[1] // terms.k_BGLF.shape[1]
    s, z, ys, weights = before.s_BGFK, before.z_BGF, [], []
    for t in range(terms.k_BGLF.shape[2]):
        q, k, v = terms.q_BHLF[:, :, t], terms.k_BGLF[:, :, t], terms.v_BGLK[:, :, t]
        if terms.fade_BGL is not None:
            a = terms.fade_BGL[:, :, t, None].exp()
            s, z = s * a[..., None], None if z is None else z * a
        if terms.strength_BGL is not None:
            v = terms.strength_BGL[:, :, t, None] * (v - torch.einsum("bgfk,bgf->bgk", s, k))
        s, z = s + k[..., None] * v[..., None, :], None if z is None else z + k
        ys.append(torch.einsum("bhf,bhfk->bhk", q, s.repeat_interleave(r, dim=1)))
        weights.append(ys[-1][..., :1] if z is None else (q * z.repeat_interleave(r, dim=1)).sum(-1, keepdim=True))
    return torch.stack(ys, 2), None if z is None else torch.stack(weights, 2), Sums(s, z)


def all_pairs(terms: Terms, before: Sums) -> Found:
    """Every query on every key of the segment."""
    r = terms.q_BHLF.shape[1] // terms.k_BGLF.shape[1]
    k_BHLF, v_BHLK = (x.repeat_interleave(r, dim=1) for x in (terms.k_BGLF, terms.v_BGLK))
    scores_BHLL = terms.q_BHLF @ k_BHLF.transpose(-1, -2)
    weight = None if before.z_BGF is None else scores_BHLL.sum(-1, keepdim=True)
    return scores_BHLL @ v_BHLK, weight, before


def both_ways(terms: Terms, before: Sums) -> Found:
    """Every query sees all tokens; nothing fades."""
    after = replace(
        before,
        s_BGFK=before.s_BGFK + terms.k_BGLF.transpose(-1, -2) @ terms.v_BGLK,
        z_BGF=None if before.z_BGF is None else before.z_BGF + terms.k_BGLF.sum(2),
    )
    B, G = terms.k_BGLF.shape[:2]
    q_BGRF = terms.q_BHLF.reshape(B, G, -1, terms.q_BHLF.shape[-1])
    y = (q_BGRF @ after.s_BGFK).view(*terms.q_BHLF.shape[:3], -1)
    weight = None if after.z_BGF is None else (q_BGRF @ after.z_BGF[..., None]).view(*terms.q_BHLF.shape[:3], 1)
    return y, weight, after


def sizes(length: int) -> tuple[int, int]:
    """How many chunks, and of how many tokens; the last is filled up with padding."""
    n = -(-length // CHUNK)
    return n, -(-length // n)


def chunkwise(terms: Terms, before: Sums) -> Found:
    """Queries on the keys of their chunk, and on the sums of the chunks before.

    With A_t = Σ_{u ≤ t} log a_u within the chunk, key j has faded by e^(A_i − A_j) for query i, the sums by e^(A_i).
    """
    (H, L), G = terms.q_BHLF.shape[1:3], terms.k_BGLF.shape[1]
    n, T = sizes(L)
    q = _chunks(terms.q_BHLF, n, T).unflatten(1, (G, H // G)).transpose(2, 3)  # (B, G, n, r, T, F)
    k, v = _chunks(terms.k_BGLF, n, T), _chunks(terms.v_BGLK, n, T)
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
    return _tokens(y, H // G, L), weight, Sums(last, z_BGF)


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
