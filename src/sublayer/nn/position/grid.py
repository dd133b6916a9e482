"""Learned positions of a grid: one trained vector per row, one per column, and so on, added together."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from sublayer.nn.config import Count
from sublayer.nn.linear import DEVIATION
from sublayer.nn.position.base import Position
from sublayer.nn.scene import Scene


class Grid(Position):
    """p_i = Σ_a T_a[coordinate of i on axis a], the last axis running fastest (Child et al. 2019, section 5.3).

    An image has rows, columns and channels; a text is laid out in rows as long as the stride of its attention.
    """

    class Config(Position.Config, tag="grid"):
        embeds = True
        shape: Annotated[tuple[Count, ...], Field(min_length=1)] = (32, 32, 3)
        """Size of each axis, the one that runs fastest last."""

        @property
        def end(self) -> int:
            return prod(self.shape)

        def for_images(self, shape: tuple[int, int, int]) -> Position.Config:
            """Three axes are rows, columns and channels; two are rows and the tokens of a row."""
            rows, columns, channels = shape
            known = {2: (rows, columns * channels), 3: shape}
            return self.but(shape=known.get(len(self.shape), self.shape))

        def build(self, dim: int, head_dim: int) -> Position:
            return Grid(self, dim)

        def params(self, dim: int, head_dim: int) -> int:
            return sum(self.shape) * dim

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.shape, self.end = config.shape, config.end
        # Divided by √axes, so that the sum starts as small as one learned vector.
        deviation = DEVIATION * len(self.shape) ** -0.5
        self.axes = nn.ParameterList(torch.empty(size, dim).normal_(std=deviation) for size in self.shape)

    def embed(self, x_BLD: Float[Tensor, "B L D"], scene: Scene) -> Float[Tensor, "B L D"]:
        last = scene.start + scene.length - 1 if scene.even else int(scene.i_BL.max())
        if not scene.even and int(scene.i_BL.min()) < 0:
            raise ValueError(f"positions: expected 0 or more, got {int(scene.i_BL.min())}; count positions from 0")
        if last >= self.end:
            size = " × ".join(map(str, self.shape))
            raise ValueError(
                f"position: a grid of {size} has {self.end} positions, got a sequence that needs {last + 1}. "
                "Set a larger position.shape and train, or use rotary or alibi, which have no end."
            )
        steps = [self.end // through for through in accumulate(self.shape, int.__mul__)]
        for axis_ND, size, step in zip(self.axes, self.shape, steps, strict=True):
            x_BLD = x_BLD + nn.functional.embedding(scene.i_BL // step % size, axis_ND)
        return x_BLD
