"""The slow, obvious twin of memorizing's search: one query at a time, its keys sorted by score."""

from __future__ import annotations

import torch
from torch import Tensor


def search(q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, seen_BLM: Tensor, neighbours: int) -> Tensor:
    """Σ softmax(q·k) v over the `neighbours` keys with the largest q·k of those seen; 0 where none is."""
    B, H, L, _ = q_BHLK.shape
    each, found = H // k_BGMK.shape[1], []
    for b in range(B):
        for h in range(H):
            k_MK, v_MK, seen_LM = k_BGMK[b, h // each], v_BGMK[b, h // each], seen_BLM[b if len(seen_BLM) > 1 else 0]
            found += [
                _one(q_K, k_MK, v_MK, seen_M, neighbours) for q_K, seen_M in zip(q_BHLK[b, h], seen_LM, strict=True)
            ]
    return torch.stack(found).view(B, H, L, -1)


def _one(q_K: Tensor, k_MK: Tensor, v_MK: Tensor, seen_M: Tensor, neighbours: int) -> Tensor:
    scores_M = (k_MK * q_K).sum(-1)
    order = scores_M.masked_fill(~seen_M, -torch.inf).argsort(descending=True)
    best = order[: min(neighbours, int(seen_M.sum()))]
    return (scores_M[best].softmax(0)[:, None] * v_MK[best]).sum(0)
