"""Images in a NumPy file: N × height × width, or with the channels after that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sublayer.data.images.source import ImageSource, Size, Survey
from sublayer.data.source.files import digest, reading
from sublayer.data.tokenizer.pixels import Image
from sublayer.files import cache


class ImageArray(ImageSource):
    """Whole numbers from 0 to 255 (uint8); one channel is grey, three are red, green and blue."""

    class Config(ImageSource.Config, tag="array"):
        path: str

    config: Config

    @property
    def path(self) -> Path:
        return Path(self.config.path).expanduser()

    def survey(self, size: Size | None) -> Survey:
        images = self._open()
        return Survey(len(images), size or images.shape[1:3], "grey" if images.shape[3] == 1 else "rgb")

    def read(self, size: Size) -> Iterator[Image]:
        yield from self._open()

    def fingerprint(self) -> str:
        return cache.key(array=digest(self.path))

    def _open(self) -> np.ndarray:
        with reading(self.path):
            try:
                images = np.load(self.path, mmap_mode="r", allow_pickle=False)
            except (ValueError, EOFError) as error:
                why = str(error).splitlines()[0]
                raise ValueError(f"{self.path}: not a NumPy array ({why}); write one by numpy.save") from None
        if images.dtype != np.uint8:
            raise ValueError(
                f"{self.path}: its numbers are {images.dtype}, expected uint8, 0 to 255; save images.astype('uint8'), "
                "after multiplying by 255 where white is 1"
            )
        if images.ndim == 3:
            images = images[..., None]
        if images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape:
            raise ValueError(
                f"{self.path}: its shape is {images.shape}, expected N × height × width, or N × height × width × 1 or "
                "3 channels, with at least one image"
            )
        return images
