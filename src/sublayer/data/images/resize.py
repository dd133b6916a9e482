"""An image in another size."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from sublayer.data.tokenizer.pixels import Image


def resized(image: Image, height: int, width: int) -> Image:
    """The middle of the image in the proportions asked for; each new pixel is the mean of the area that it covers."""
    if image.shape[:2] == (height, width):
        return image
    there = cut(image, height, width).astype(np.float64)
    down_HR, across_VW = _areas(there.shape[0], height), _areas(there.shape[1], width)
    found = np.einsum("hr,rvc,wv->hwc", down_HR, there, across_VW, optimize=True)
    # Sums of products differ in their last bits from machine to machine; a rounding before the rounding hides that.
    return np.rint(found.round(6)).astype(np.uint8)


def cut(image: Image, height: int, width: int) -> Image:
    """The largest part in these proportions, from the middle."""
    rows, columns = image.shape[:2]
    tall, wide = min(rows, max(1, columns * height // width)), min(columns, max(1, rows * width // height))
    top, left = (rows - tall) // 2, (columns - wide) // 2
    return image[top : top + tall, left : left + wide]


def _areas(there: int, wanted: int) -> Float64[np.ndarray, "wanted there"]:
    """Share of each old pixel in each new one, along one side."""
    border_N = np.arange(wanted + 1) * there / wanted
    old_R = np.arange(there)
    first, last = np.maximum(border_N[:-1, None], old_R), np.minimum(border_N[1:, None], old_R + 1)
    return (last - first).clip(min=0) * wanted / there
