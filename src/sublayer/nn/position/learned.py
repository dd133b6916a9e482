"""Learned positions: one trained vector per position, added to the token vectors."""

from __future__ import annotations

import torch
from jaxtyping import Float
from pydantic import NonNegativeInt
from torch import Tensor, nn

from sublayer.nn.config import Count
from sublayer.nn.linear import DEVIATION
from sublayer.nn.position.base import Position
from sublayer.nn.scene import Scene


class Learned(Position):
    """p_i = T[i + offset] (Gehring et al. 2017; GPT-2, BERT). OPT has two unused rows in front: offset = 2."""

    class Config(Position.Config, tag="learned"):
        embeds = True
        limit: Count = 1024
        """Number of positions it has a vector for."""
        offset: NonNegativeInt = 0
        """Number of unused rows before that of position 0."""

        @property
        def end(self) -> int:
            return self.limit

        def build(self, dim: int, head_dim: int) -> Position:
            return Learned(self, dim)

        def params(self, dim: int, head_dim: int) -> int:
            return (self.limit + self.offset) * dim

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.offset, self.limit = config.offset, config.limit
        self.weight = nn.Parameter(torch.empty(config.limit + config.offset, dim).normal_(std=DEVIATION))

    def embed(self, x_BLD: Float[Tensor, "B L D"], scene: Scene) -> Float[Tensor, "B L D"]:
        last = scene.start + scene.length - 1 if scene.even else int(scene.i_BL.max())
        if not scene.even and int(scene.i_BL.min()) < 0:
            raise ValueError(f"positions: expected 0 or more, got {int(scene.i_BL.min())}; count positions from 0")
        if last >= self.limit:
            raise ValueError(
                f"position: there are {self.limit} learned positions, got a sequence that needs {last + 1}. "
                f"Set position.limit={last + 1} and train, or use rotary or alibi, which have no end."
            )
        if scene.even:
            first = scene.start + self.offset
            return x_BLD + self.weight[first : first + scene.length]
        return x_BLD + nn.functional.embedding(scene.i_BL + self.offset, self.weight)
