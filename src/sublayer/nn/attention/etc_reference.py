"""The slow, obvious twin of etc.py: one query at a time, and each of its keys with its projection and its label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from sublayer.nn.attention.etc_inputs import Inputs

if TYPE_CHECKING:
    from sublayer.nn.attention.etc import EtcAttention


def attend(part: EtcAttention, inputs: Inputs) -> tuple[Float[Tensor, "B J D"], Float[Tensor, "B N D"]]:
    """The outputs of global and of long tokens."""
    rows = [_row(part, inputs, b) for b in range(len(inputs.long_BND))]
    global_BJD, long_BND = (torch.stack([row[n] for row in rows]) for n in (0, 1))
    return global_BJD, long_BND


def _row(part: EtcAttention, inputs: Inputs, b: int) -> tuple[Tensor, Tensor]:
    x = {"g": inputs.global_BJD[b], "l": inputs.long_BND[b]}
    real = {"g": _of(inputs.real_BJ, b).tolist(), "l": _of(inputs.real_BN, b).tolist()}
    own_NJ, made = _of(inputs.own_BNJ, b).tolist(), _projected(part, x)
    found: dict[str, list[Tensor]] = {"g": [], "l": []}
    for side, y in found.items():
        for i in range(len(x[side])):
            keys = []
            for other in "lg":
                for j in range(len(x[other])):
                    mine = own_NJ[i][j] if side + other == "lg" else own_NJ[j][i] if side + other == "gl" else False
                    near = side + other != "ll" or abs(j - i) <= part.config.radius
                    hidden = part.config.g2l == "own" and side + other == "gl" and not mine
                    if real[other][j] and near and not hidden:
                        keys.append((side + other, j, _label(part, side + other, j - i, mine)))
            y.append(_one(part, x[side][i], side, made, keys) if keys else torch.zeros_like(x[side][i]))
    empty = x["l"][:0]
    return tuple(torch.stack(found[side]) if found[side] else empty for side in "gl")  # pyright: ignore[reportReturnType]


def _of(x: Tensor, b: int) -> Tensor:
    return x[b if len(x) > 1 else 0]


def _label(part: EtcAttention, piece: str, apart: int, own: bool) -> int:
    """The row of the table of labels."""
    clip, first = part.config.clip, part.config.labels if piece[0] == "g" else 0
    if piece[0] == piece[1]:
        return first + min(max(apart, -clip), clip) + clip
    return first + 2 * clip + (1 if own else 2)


def _projected(part: EtcAttention, x: dict[str, Tensor]) -> dict[str, Tensor]:
    """For each piece, the keys and the values of its tokens, (M, 2, G, K)."""
    groups = {1: ["ll lg gl gg"], 2: ["ll lg", "gl gg"], 4: ["ll", "lg", "gl", "gg"]}[part.config.projections]
    pieces = {piece: n for n, group in enumerate(groups) for piece in group.split()}
    sizes = 2, part.groups, part.head_dim
    return {piece: part.key_value[n](x[piece[1]]).unflatten(-1, sizes) for piece, n in pieces.items()}


def _one(
    part: EtcAttention, x_D: Tensor, side: str, made: dict[str, Tensor], keys: list[tuple[str, int, int]]
) -> Float[Tensor, " D"]:
    """One query on these keys: piece, index, label."""
    H, G, K = part.heads, part.groups, part.head_dim
    which = -1 if side == "g" else 0
    q_HK = part.query[which](x_D).view(H, K)
    k_MGK = torch.stack([made[piece][j, 0] for piece, j, _ in keys])
    v_MGK = torch.stack([made[piece][j, 1] for piece, j, _ in keys])
    a_HMK = part.label_HRK[:, [label for *_, label in keys]]
    outputs = []
    for h in range(H):
        g = h * G // H
        weights_M = ((k_MGK[:, g] + a_HMK[h]) @ q_HK[h] / K**0.5).softmax(0)
        outputs.append(weights_M @ v_MGK[:, g])
    return part.outputs[which](torch.cat(outputs))
