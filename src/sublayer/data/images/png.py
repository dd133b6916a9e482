"""PNG, written: so that images can be shown without an imaging library."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from sublayer.data.tokenizer.pixels import Image
from sublayer.files.atomic import writing

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOUR = {1: 0, 3: 2}
"""Channels → colour type of the format: grey or RGB."""


def write(path: Path | str, image: Image) -> None:
    """An 8-bit PNG, grey or RGB."""
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR[channels], 0, 0, 0)
    # Before each row stands the number of its filter: 0, none.
    rows = np.pad(image.reshape(height, width * channels), ((0, 0), (1, 0)))
    with writing(Path(path)) as file:
        file.write(SIGNATURE)
        for name, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")):
            file.write(struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)))
