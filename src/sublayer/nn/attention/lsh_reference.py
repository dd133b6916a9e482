"""The slow, obvious twin of lsh.py: given the buckets, one row, head, query, round and key at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.nn.attention.buckets import Grid, Hashed

ITSELF = -1e5
Place = tuple[int, int]
"""A bucket, and a chunk."""


@dataclass(frozen=True)
class Token:
    """A token that is no padding, of one head: what others see of it, and where each round puts it."""

    k_K: Tensor
    v_K: Tensor
    places: list[Place]

    def rounds_seeing(self, other: Token) -> int:
        """In how many rounds it sees a key of the other, if the order of the two is no matter."""
        return sum(mine in ((b, c), (b, c + 1)) for mine, (b, c) in zip(self.places, other.places, strict=True))


def attend(q_K: Tensor, query: Token, keys: list[Token]) -> Tensor:
    """Each round by itself, and then the rounds, weighed by the sums of their exponentials."""
    outputs, sums = [], []
    for r, (bucket, chunk) in enumerate(query.places):
        scores, values = [], []
        for key in keys:
            if key.places[r] in ((bucket, chunk), (bucket, chunk - 1)):
                score = q_K.new_tensor(ITSELF) if key is query else q_K @ key.k_K
                scores.append(score - math.log(query.rounds_seeing(key)))
                values.append(key.v_K)
        outputs.append(torch.stack(scores).softmax(0) @ torch.stack(values))
        sums.append(torch.stack(scores).logsumexp(0))
    return torch.stack(sums).softmax(0) @ torch.stack(outputs)


def back(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BHLK: Float[Tensor, "B H L K"],
    v_BHLK: Float[Tensor, "B H L K"],
    bucket_BHRL: Int[Tensor, "B H R L"],
    valid_BL: Tensor | None,
    past: Hashed,
    grid: Grid,
) -> Float[Tensor, "B H L K"]:
    y_BHLK = torch.zeros_like(v_BHLK)
    for b, h in _heads(q_BHLK):
        tokens = _earlier(past, b, h, grid)
        ranks = [past.count_BHRn[b, h, r].tolist() for r in range(past.rounds)]
        for i in _real(valid_BL, b, q_BHLK.shape[2]):
            places = []
            for r, bucket in enumerate(bucket_BHRL[b, h, :, i].tolist()):
                places.append((bucket, ranks[r][bucket] // grid.chunk))
                ranks[r][bucket] += 1
            tokens.append(Token(k_BHLK[b, h, i], v_BHLK[b, h, i], places))
            y_BHLK[b, h, i] = attend(q_BHLK[b, h, i], tokens[-1], tokens)
    return y_BHLK


def both_ways(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BHLK: Float[Tensor, "B H L K"],
    v_BHLK: Float[Tensor, "B H L K"],
    bucket_BHRL: Int[Tensor, "B H R L"],
    valid_BL: Tensor | None,
    grid: Grid,
) -> Float[Tensor, "B H L K"]:
    y_BHLK = torch.zeros_like(v_BHLK)
    for b, h in _heads(q_BHLK):
        real = _real(valid_BL, b, q_BHLK.shape[2])
        places: dict[int, list[Place]] = {i: [] for i in real}
        for buckets in bucket_BHRL[b, h].tolist():
            for nth, i in enumerate(sorted(real, key=lambda i: (buckets[i], i))):
                places[i].append((buckets[i], nth // grid.chunk))
        tokens = {i: Token(k_BHLK[b, h, i], v_BHLK[b, h, i], places[i]) for i in real}
        for i in real:
            y_BHLK[b, h, i] = attend(q_BHLK[b, h, i], tokens[i], list(tokens.values()))
    return y_BHLK


def _heads(q_BHLK: Tensor) -> list[tuple[int, int]]:
    return [(b, h) for b in range(q_BHLK.shape[0]) for h in range(q_BHLK.shape[1])]


def _real(valid_BL: Tensor | None, b: int, length: int) -> list[int]:
    """Which tokens of a row are no padding."""
    if valid_BL is None:
        return list(range(length))
    return valid_BL[b if len(valid_BL) > 1 else 0].nonzero()[:, 0].tolist()


def _earlier(past: Hashed, b: int, h: int, grid: Grid) -> list[Token]:
    """Those that are stored; by their codes, padding is left out."""
    found = []
    for k_K, v_K, codes in zip(past.k.value[b, h], past.v.value[b, h], past.code.value[b, h].tolist(), strict=True):
        if codes[0] != grid.padding:
            found.append(Token(k_K, v_K, [(code // grid.span, code % grid.span // grid.chunk) for code in codes]))
    return found
