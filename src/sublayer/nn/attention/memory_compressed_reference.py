"""The slow, obvious twin of memory_compressed.py: one row and one query at a time, padding left out, and PyTorch's own
convolution."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.scene import Scene

Pair = tuple[Tensor, Tensor]
"""Keys and values."""


@dataclass(frozen=True)
class Row:
    """Keys, or values, of one row: of blocks finished before the segment, and all tokens after those."""

    done_GnK: Float[Tensor, "G n K"]
    tokens_GTK: Float[Tensor, "G T K"]
    weight_GZK: Float[Tensor, "G Z K"]

    @property
    def stride(self) -> int:
        return self.weight_GZK.shape[1] // self.weight_GZK.shape[2]

    def blocks(self, count: int) -> Float[Tensor, "G N K"]:
        """All finished blocks and `count` of those that the tokens make, the last filled up with zeros if need be."""
        G, T, K = self.tokens_GTK.shape
        if not count:
            return self.done_GnK
        x_GTK = F.pad(self.tokens_GTK, (0, 0, 0, max(0, count * self.stride - T)))[:, : count * self.stride]
        kernel = self.weight_GZK.unflatten(1, (self.stride, K)).permute(0, 3, 2, 1).flatten(0, 1)
        made = F.conv1d(x_GTK.transpose(1, 2).reshape(1, G * K, -1), kernel, stride=self.stride, groups=G)
        return torch.cat([self.done_GnK, made[0].unflatten(0, (G, K)).transpose(1, 2)], dim=1)

    def seen(self, token: int, both_ways: bool) -> Float[Tensor, "G M K"]:
        """By a query that is one of the tokens."""
        if both_ways:
            return self.blocks(-(-self.tokens_GTK.shape[1] // self.stride))
        own = token // self.stride
        return torch.cat([self.blocks(own), self.tokens_GTK[:, own * self.stride : token + 1]], dim=1)


def attend(q_HK: Float[Tensor, "H K"], k_GMK: Float[Tensor, "G M K"], v_GMK: Float[Tensor, "G M K"]) -> Tensor:
    """One query."""
    rows = []
    for h, q_K in enumerate(q_HK):
        g = h * len(k_GMK) // len(q_HK)
        weights_M = (k_GMK[g] @ q_K * q_K.shape[0] ** -0.5).softmax(0)
        rows.append(weights_M @ v_GMK[g])
    return torch.stack(rows)


def attend_all(
    q_BHLK: Float[Tensor, "B H L K"], new: Pair, weights: Pair, scene: Scene, past: Pair, blocks: int, both_ways: bool
) -> tuple[Float[Tensor, "B H L K"], Pair, int]:
    """The output; what the state holds, and how much of it are blocks. `past` begins with `blocks` of those."""
    outputs, sides = [], []
    for b in range(len(q_BHLK)):
        real = _real(scene, b)
        k, v = (_row(x[b], old[b], w, real, scene, b, blocks) for x, old, w in zip(new, past, weights, strict=True))
        first, found = k.tokens_GTK.shape[1] - len(real), {}
        for nth, i in enumerate(real):
            found[i] = attend(q_BHLK[b, :, i], k.seen(first + nth, both_ways), v.seen(first + nth, both_ways))
        zeros_HK = torch.zeros_like(q_BHLK[b, :, 0])
        outputs.append(torch.stack([found.get(i, zeros_HK) for i in range(scene.length)], dim=1))
        sides.append((k, v))
    (done, k_BGMK), (_, v_BGMK) = (_stored([side[n] for side in sides]) for n in (0, 1))
    return torch.stack(outputs), (k_BGMK, v_BGMK), done


def _real(scene: Scene, b: int) -> list[int]:
    """Which tokens of a row are no padding."""
    if scene.valid_BL is None:
        return list(range(scene.length))
    return scene.valid_BL[b if len(scene.valid_BL) > 1 else 0].nonzero()[:, 0].tolist()


def _row(x_GLK: Tensor, old_GMK: Tensor, weight_GZK: Tensor, real: list[int], scene: Scene, b: int, blocks: int) -> Row:
    stride = weight_GZK.shape[1] // weight_GZK.shape[2]
    past = scene.past_valid_BP
    before = scene.start if past is None else int(past[b if len(past) > 1 else 0].sum())
    begun_GTK = old_GMK[:, blocks : blocks + before % stride]
    return Row(old_GMK[:, : before // stride], torch.cat([begun_GTK, x_GLK[:, real]], dim=1), weight_GZK)


def _stored(rows: list[Row]) -> tuple[int, Float[Tensor, "B G M K"]]:
    """Blocks, then tokens of the unfinished one; filled up to those of the row that has most."""
    counts = [row.tokens_GTK.shape[1] // row.stride for row in rows]
    done = [row.blocks(count) for row, count in zip(rows, counts, strict=True)]
    rest = [row.tokens_GTK[:, count * row.stride :] for row, count in zip(rows, counts, strict=True)]
    done_BGnK, rest_BGTK = (_filled(some) for some in (done, rest))
    return done_BGnK.shape[2], torch.cat([done_BGnK, rest_BGTK], dim=2)


def _filled(rows: list[Tensor]) -> Tensor:
    most = max(x.shape[1] for x in rows)
    return torch.stack([F.pad(x, (0, 0, 0, most - x.shape[1])) for x in rows])
