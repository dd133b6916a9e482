"""The slow, obvious twin of routing.py: given the clusters, one row, head, query and key at a time."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.nn.attention.balanced import levels
from sublayer.nn.attention.buckets import Grid, Hashed


def attend(q_K: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    return torch.stack([q_K @ k_K for k_K in keys]).softmax(0) @ torch.stack(values)


def back(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BHLK: Float[Tensor, "B H L K"],
    v_BHLK: Float[Tensor, "B H L K"],
    cluster_BHL: Int[Tensor, "B H L"],
    valid_BL: Tensor | None,
    past: Hashed,
    grid: Grid,
) -> Float[Tensor, "B H L K"]:
    """A token sees the last ones of its cluster before it; itself, if there is none. Keys are divided by √K."""
    y_BHLK = torch.zeros_like(v_BHLK)
    for b, h in _heads(q_BHLK):
        clusters = (past.code.value[b, h, :, 0] // grid.span).tolist()
        tokens = list(zip(clusters, past.k.value[b, h], past.v.value[b, h], strict=True))
        for i in _real(valid_BL, b, q_BHLK.shape[2]):
            own = int(cluster_BHL[b, h, i]), k_BHLK[b, h, i], v_BHLK[b, h, i]
            seen = [token for token in tokens if token[0] == own[0]][-grid.reach :] or [own]
            y_BHLK[b, h, i] = attend(q_BHLK[b, h, i], [k for _, k, _ in seen], [v for _, _, v in seen])
            tokens.append(own)
    return y_BHLK


def both_ways(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BHLK: Float[Tensor, "B H L K"],
    v_BHLK: Float[Tensor, "B H L K"],
    to_query_BHCL: Float[Tensor, "B H C L"],
    to_key_BHCL: Float[Tensor, "B H C L"],
    valid_BL: Tensor | None,
    window: int,
) -> Float[Tensor, "B H L K"]:
    """Each centroid takes the queries and the keys nearest to it; a query has the mean over those that took it."""
    y_BHLK, most = torch.zeros_like(v_BHLK), levels(to_key_BHCL.dtype)
    for b, h in _heads(q_BHLK):
        real = _real(valid_BL, b, q_BHLK.shape[2])
        found: dict[int, list[Tensor]] = {i: [] for i in real}
        for c in range(to_query_BHCL.shape[2]):
            queries, keys = (
                sorted(real, key=lambda i: (-round(float(to_BHCL[b, h, c, i]) * most), i))[:window]
                for to_BHCL in (to_query_BHCL, to_key_BHCL)
            )
            for i in queries:
                q_K = q_BHLK[b, h, i] * q_BHLK.shape[-1] ** -0.5
                y_K = attend(q_K, [k_BHLK[b, h, j] for j in keys], [v_BHLK[b, h, j] for j in keys])
                found[i].append(y_K)
        for i, outputs in found.items():
            if outputs:
                y_BHLK[b, h, i] = torch.stack(outputs).mean(0)
    return y_BHLK


def _heads(q_BHLK: Tensor) -> list[tuple[int, int]]:
    return [(b, h) for b in range(q_BHLK.shape[0]) for h in range(q_BHLK.shape[1])]


def _real(valid_BL: Tensor | None, b: int, length: int) -> list[int]:
    """Which tokens of a row are no padding."""
    if valid_BL is None:
        return list(range(length))
    return valid_BL[b if len(valid_BL) > 1 else 0].nonzero()[:, 0].tolist()
