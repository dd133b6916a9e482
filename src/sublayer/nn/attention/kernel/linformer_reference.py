"""The slow, obvious twins of linformer.py and linformer_causal.py: one row, head and query at a time, no padding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sublayer.nn.scene import Scene

Pair = tuple[Tensor, Tensor]
"""Keys and values, or what makes slots of them."""


@dataclass(frozen=True)
class Compression:
    """How a row's tokens become slots."""

    how: str
    rank: int
    stride: int
    """Tokens of a window, where the text's length does not decide that."""
    weights: Pair | None

    def slots(self, x_TK: Float[Tensor, "T K"], head: int, side: int) -> list[Tensor]:
        """`side`: 0 for keys, 1 for values."""
        T = len(x_TK)
        if self.how in ("mean", "max"):
            size = -(-T // self.rank)
            windows = [x_TK[start : start + size] for start in range(0, T, size)]
            return [window.mean(0) if self.how == "mean" else window.max(0).values for window in windows]
        weight = self.weight(head, side)
        if self.how == "learned":
            return [(weight[r, :T, None] * x_TK).sum(0) for r in range(self.rank)]
        windows = [x_TK[start : start + self.stride] for start in range(0, T, self.stride)]
        return [(weight[: len(window)] * window).sum(0) for window in windows]

    def weight(self, head: int, side: int) -> Tensor:
        assert self.weights is not None
        weight = self.weights[side]
        return weight[head if len(weight) > 1 else 0]


def attend(q_BHLK: Tensor, k_BGLK: Tensor, v_BGLK: Tensor, scene: Scene, made: Compression) -> Tensor:
    """Every query on all slots."""
    y_BHLK = []
    for b, q_HLK in enumerate(q_BHLK):
        now, _ = _real(scene, b)
        rows = []
        for h, q_LK in enumerate(q_HLK):
            g = h * k_BGLK.shape[1] // len(q_HLK)
            if not now:
                rows.append(torch.zeros_like(q_LK))
                continue
            keys, values = (torch.stack(made.slots(x[b, g, now], g, side)) for side, x in enumerate((k_BGLK, v_BGLK)))
            rows.append(torch.stack([_one(q_K, keys, values) for q_K in q_LK]))
        y_BHLK.append(torch.stack(rows))
    return torch.stack(y_BHLK)


def attend_causal(
    q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, scene: Scene, block: int, made: Compression
) -> Tensor:
    """Every query on the slots of the blocks before its own, and on the tokens of its block up to itself. Keys and
    values are those of all tokens so far, those before the segment included."""
    y_BHLK = []
    for b, q_HLK in enumerate(q_BHLK):
        now, past = _real(scene, b)
        tokens = past + [scene.start + i for i in now]
        rows = []
        for h, q_LK in enumerate(q_HLK):
            g = h * k_BGMK.shape[1] // len(q_HLK)
            both = [_Side(x[b, g, tokens], g, side, block, made) for side, x in enumerate((k_BGMK, v_BGMK))]
            found = {i: _one(q_LK[i], *(one.seen(len(past) + n) for one in both)) for n, i in enumerate(now)}
            rows.append(torch.stack([found.get(i, torch.zeros_like(q_LK[i])) for i in range(len(q_LK))]))
        y_BHLK.append(torch.stack(rows))
    return torch.stack(y_BHLK)


class _Side:
    """Keys, or values, of one head: of each complete block its slots, and all tokens."""

    def __init__(self, x_TK: Tensor, head: int, side: int, block: int, made: Compression) -> None:
        starts = range(0, len(x_TK) - block + 1, block)
        self.slots = [made.slots(x_TK[start : start + block], head, side) for start in starts]
        self.x_TK, self.block = x_TK, block

    def seen(self, token: int) -> Tensor:
        """By the query of this token."""
        own = token // self.block
        far = [slot for slots in self.slots[:own] for slot in slots]
        return torch.stack([*far, *self.x_TK[own * self.block : token + 1]])


def _one(q_K: Tensor, k_MK: Tensor, v_MK: Tensor) -> Tensor:
    """softmax(q kᵀ/√K) v."""
    weights_M = (k_MK @ q_K * q_K.shape[0] ** -0.5).softmax(0)
    return weights_M @ v_MK


def _real(scene: Scene, b: int) -> tuple[list[int], list[int]]:
    """Which tokens of a row are no padding, of the segment and of those before it."""

    def real(valid: Tensor | None, length: int) -> list[int]:
        return list(range(length)) if valid is None else valid[b if len(valid) > 1 else 0].nonzero()[:, 0].tolist()

    return real(scene.valid_BL, scene.length), real(scene.past_valid_BP, scene.start)
