"""Dropout on attention weights by a hash of (seed, row, head, query, key): native.c drops the same ones."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

WORD = 0xFFFFFFFF


def draw_seed() -> int:
    """From PyTorch's generator, so that a resumed training drops the same weights."""
    return int(torch.randint(2**62, ()).item())


def threshold(rate: float) -> int:
    """Random words below it are dropped."""
    return min(int(rate * 2**32), WORD)


def kept(seed: int, rate: float, batch: int, heads: int, length: int, attended: int) -> Bool[Tensor, "B H L M"]:
    """Which weights stay."""
    row = torch.arange(batch * heads * length).view(batch, heads, length, 1)
    row = mixed(((seed >> 32) & WORD) ^ mixed(((seed & WORD) + row) & WORD))
    word = mixed((torch.arange(attended) * 0x9E3779B1 + row) & WORD)
    return (word >> 1) >= (threshold(rate) >> 1)


def mixed(x: Tensor) -> Tensor:
    """MurmurHash3's last step, on 32 bits held in 64."""
    x = (_times((x ^ (x >> 16)), 0x85EBCA6B)) & WORD
    x = (_times((x ^ (x >> 13)), 0xC2B2AE35)) & WORD
    return x ^ (x >> 16)


def _times(x: Tensor, by: int) -> Tensor:
    """x · by modulo 2³², without overflow: a product of two words does not fit in 63 bits."""
    return (x * (by & 0xFFFF)) + (((x * (by >> 16)) & 0xFFFF) << 16)
