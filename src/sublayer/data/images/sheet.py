"""Several images side by side in one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sublayer.data.tokenizer.pixels import Image, recoloured

SHOWN = 96
"""Images with a shorter side than that are enlarged, by a whole number."""
GAP, MARK = 6, 2
"""Pixels around each image, and of the line that marks rows."""
GROUND, MARKED = (255, 255, 255), (230, 85, 0)


def sheet(lines: Sequence[Sequence[Image]], marked: int = 0) -> Image:
    """Lines of images, one under the other, all of one size; an orange line stands beside the first `marked` rows of
    each."""
    height, width, _ = lines[0][0].shape
    times = max(1, -(-SHOWN // min(height, width)))
    tall, wide = times * height + GAP, times * width + GAP
    found = np.full((tall * len(lines) + GAP, wide * max(map(len, lines)) + GAP, 3), GROUND, np.uint8)
    for n, line in enumerate(lines):
        for m, image in enumerate(line):
            top, left = n * tall + GAP, m * wide + GAP
            large = recoloured(image, "rgb").repeat(times, axis=0).repeat(times, axis=1)
            found[top : top + times * height, left : left + times * width] = large
            found[top : top + times * marked, left - 2 * MARK : left - MARK] = MARKED
    return found
