"""Shapes: small images drawn by a seed, on any machine, without files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Integer
from pydantic import Field

from sublayer.data.images.source import ImageSource, Size, Survey
from sublayer.data.tasks.dice import Dice
from sublayer.data.tokenizer.pixels import Image
from sublayer.files import cache
from sublayer.nn.config import Count

FORMAT = 1
"""Version of the drawing: the same number, the same images."""
SIDE = 16
"""Pixels of a side, where no size is asked for."""
UNIT = 2048
"""Length of the shorter side. All is drawn in whole numbers, so that every machine draws the same."""
SAMPLES = 3
"""Points along each side of a pixel at which it is asked whether a shape covers it: edges are smooth."""
COSINES, SINES = np.array([(5, 0), (4, 3), (3, 4), (0, 5), (-3, 4), (-4, 3)], np.int32).T
"""Of the directions, times five: whole numbers."""
BLOCK = 128
"""Images drawn at once."""

Grid = Integer[np.ndarray, "E H W"]
Covered = Bool[np.ndarray, "E H W"]


class Shapes(ImageSource):
    """One to three shapes on a ground: discs, rings, squares, triangles and bars, of any colour, size and direction."""

    class Config(ImageSource.Config, tag="shapes"):
        count: Count = 10_000
        """Of image:shapes: number of images in all splits."""
        most: Count = 3
        """Of image:shapes: most shapes in an image."""
        seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
        """Of image:shapes: seed of the drawing."""

    config: Config

    @property
    def title(self) -> str:
        return self.config.tag

    def survey(self, size: Size | None) -> Survey:
        return Survey(self.config.count, size or (SIDE, SIDE), "grey")

    def read(self, size: Size) -> Iterator[Image]:
        for number, start in enumerate(range(0, self.config.count, BLOCK)):
            images = draw(Dice(self.config.seed, number), BLOCK, self.config.most, size)
            yield from images[: self.config.count - start]

    def fingerprint(self) -> str:
        return cache.key(format=FORMAT, shapes=self.config.dump())


def draw(dice: Dice, count: int, most: int, size: Size) -> Integer[np.ndarray, "E H W 3"]:
    """So many images, each shape drawn over those before it."""
    y_H, x_W = (_points(side, min(size)) for side in size)
    ground_E3 = dice.roll(256, count, 3)
    image = np.broadcast_to(ground_E3[:, None, None, :], (count, *size, 3)).astype(np.int32)
    shapes_E = 1 + dice.roll(most, count)
    for nth in range(most):
        # Each channel differs from the ground's by a quarter of its range or more.
        colour = ((ground_E3 + 64 + dice.roll(128, count, 3)) % 256)[:, None, None, :].astype(np.int32)
        covered = _covered(dice, count, y_H, x_W) & (nth < shapes_E)[:, None, None]
        parts = covered.reshape(count, size[0], SAMPLES, size[1], SAMPLES).sum((2, 4), dtype=np.int32)[..., None]
        whole = SAMPLES**2
        image = (image * (whole - parts) + colour * parts + whole // 2) // whole
    return image.astype(np.uint8)


def _points(pixels: int, shorter: int) -> Integer[np.ndarray, " N"]:
    """Where along a side it is asked what covers it."""
    return ((2 * np.arange(pixels * SAMPLES) + 1) * UNIT // (2 * SAMPLES * shorter)).astype(np.int32)


def _covered(dice: Dice, count: int, y_H: Integer[np.ndarray, " H"], x_W: Integer[np.ndarray, " W"]) -> Covered:
    """The points that a drawn shape covers in each image."""

    def drawn(first: int, last: int) -> Grid:
        return (first + dice.roll(last - first, count, 1, 1)).astype(np.int32)

    middle_y, middle_x = (drawn(int(side.max()) // 8, int(side.max()) * 7 // 8) for side in (y_H, x_W))
    radius, kind = drawn(UNIT // 8, UNIT * 3 // 8), drawn(0, 5)
    turn = drawn(0, len(COSINES))
    y, x = y_H[:, None] - middle_y, x_W - middle_x
    along, across = COSINES[turn] * x + SINES[turn] * y, COSINES[turn] * y - SINES[turn] * x  # five times as long
    square, inner = x.astype(np.int64) ** 2 + y.astype(np.int64) ** 2, radius * 5 // 8
    disc = square <= radius * radius
    ring = disc & (square >= inner * inner)
    box = (abs(along) <= 4 * radius) & (abs(across) <= 4 * radius)
    # 26 / 15 is √3 to three digits.
    triangle = (2 * across <= 5 * radius) & (26 * abs(along) - 15 * across <= 75 * radius)
    bar = (abs(along) <= 7 * radius) & (abs(across) <= radius)
    return np.select([kind == n for n in range(5)], [disc, ring, box, triangle, bar])
