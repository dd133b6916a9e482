"""Pixels: an image as ids, row by row from the top, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import UInt8
from pydantic import Field

from sublayer.data.tokenizer.base import Ids, Tokenizer, as_text
from sublayer.nn.config import Count

Image = UInt8[np.ndarray, "R W C"]
"""Rows, columns, channels; 0 is dark."""
Channels = Literal["grey", "rgb"]
COUNT: dict[Channels, int] = {"grey": 1, "rgb": 3}
LUMA = (299, 587, 114)
"""Thousandths of red, green and blue in grey (ITU-R BT.601)."""
BRIGHTEST = 255
Levels = Annotated[int, Field(ge=2, le=BRIGHTEST + 1)]


class Pixels(Tokenizer):
    """Each channel of each pixel is a token: its level. A pixel's channels follow each other (RGBRGB…).

    One id more, the last, stands before the first pixel, so that this is predicted from something, too. As text, levels
    are numbers with white space between them.
    """

    learns_from_text = False
    seam = re.compile(rb"\s")

    class Config(Tokenizer.Config, tag="pixels"):
        height: Count
        width: Count
        channels: Channels
        levels: Levels = BRIGHTEST + 1
        """Levels of brightness of a channel; fewer make a smaller vocabulary and lose detail."""

    config: Config

    def __init__(self, config: Config, learned: Any = None) -> None:
        super().__init__(config, None)
        self.vocab = config.levels + 1
        level_L = np.arange(config.levels)
        first_L, last_L = -(-level_L * 256 // config.levels), -(-(level_L + 1) * 256 // config.levels) - 1
        even_L = np.rint(level_L * BRIGHTEST / (config.levels - 1)).astype(int)
        # From black to white in even steps, but each within the values that have this level.
        self._shown_L = even_L.clip(first_L, last_L).astype(np.uint8)

    @property
    def pixels(self) -> Pixels:
        return self

    @property
    def start(self) -> int:
        """The id before the first pixel."""
        return self.config.levels

    @property
    def row(self) -> int:
        """Tokens of a row."""
        return self.config.width * self.channels

    @property
    def tokens(self) -> int:
        """Tokens of an image."""
        return self.config.height * self.row

    @property
    def channels(self) -> int:
        return COUNT[self.config.channels]

    @property
    def words(self) -> str:
        """`16×24 pixels, grey, 256 levels`: height, width."""
        size = f"{self.config.height}×{self.config.width} pixels"
        return f"{size}, {self.config.channels}, {self.config.levels} levels"

    def read(self, image: Image) -> UInt8[np.ndarray, " N"]:
        """The ids of an image of this width, or of its first rows."""
        value = recoloured(image, self.config.channels).reshape(-1).astype(np.int64)
        return (value * self.config.levels // (BRIGHTEST + 1)).astype(np.uint8)

    def show(self, ids: Ids) -> Image:
        """The image, or its first rows, that ids are."""
        array = self.checked(ids)
        if (array == self.start).any() or len(array) % self.row:
            raise ValueError(
                f"ids: {len(array)} that are no rows of {self.row} levels below {self.config.levels}; leave the start "
                "id out, and give whole rows"
            )
        return self._shown_L[array].reshape(-1, self.config.width, self.channels)

    def encode(self, text: str | bytes) -> np.ndarray:
        words = as_text(text).split()
        for word in words:
            if not (word.isdecimal() and len(word) < 5 and int(word) < self.vocab):
                raise ValueError(
                    f"{word[:20]!r} is no level of a pixel, and the model knows nothing else; use numbers from 0 to "
                    f"{self.config.levels - 1}, or images"
                )
        return np.array([int(word) for word in words], dtype=self.dtype)

    def decode(self, ids: Ids) -> str:
        return "".join(self.stream(self.checked(ids).tolist()))

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        space = ""
        for token in ids:
            yield f"{space}{token}"
            space = " "


def recoloured(image: Image, channels: Channels) -> Image:
    """With these channels: grey as it appears to the eye, or grey in each of red, green and blue."""
    there = image.shape[2]
    if there == COUNT[channels]:
        return image
    if channels == "rgb":
        return np.repeat(image, 3, axis=2)
    grey = (image.astype(np.int64) * LUMA).sum(2, keepdims=True)
    return ((grey + 500) // 1000).astype(np.uint8)
