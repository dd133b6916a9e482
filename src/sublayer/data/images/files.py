"""Images in files of any format that Pillow reads; it comes with the extra `image`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sublayer.data.images.source import ImageSource, Size, Survey
from sublayer.data.source.files import digest, matching, reading
from sublayer.data.tokenizer.pixels import Image
from sublayer.files import cache

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
WHITE = (255, 255, 255, 255)


class ImageFiles(ImageSource):
    """A folder, read at any depth in the order of paths, without names that begin with a dot; a pattern; or one file.

    What is transparent lies on white. Of an animation, the first frame is read.
    """

    class Config(ImageSource.Config, tag="files"):
        path: str

        @property
        def folder(self) -> Path | None:
            path = Path(self.path).expanduser()
            return path if path.is_dir() else None

    config: Config

    @cached_property
    def paths(self) -> list[Path]:
        root = self.config.folder
        if root is None:
            return matching(self.config.path)
        inside = (path.relative_to(root) for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
        found = sorted(path for path in inside if not any(part.startswith(".") for part in path.parts))
        if not found:
            raise ValueError(f"{root}: holds no images; give a folder with {', '.join(SUFFIXES)} files in it")
        return [root / path for path in found]

    def survey(self, size: Size | None) -> Survey:
        grey, first = True, None
        for path in self.paths:
            with opened(path) as image:
                found, mode = (image.height, image.width), image.mode
            first, grey = first or found, grey and mode in ("1", "L", "LA", "I", "I;16", "I;16B")
            if size is None and found != first:
                raise ValueError(
                    f"{path}: has {found[0]}×{found[1]} pixels (height × width), and {self.paths[0]} {first[0]}×"
                    f"{first[1]}; bring all to one size, such as data.size={min(first)}"
                )
        assert first is not None
        return Survey(len(self.paths), size or first, "grey" if grey else "rgb")

    def read(self, size: Size) -> Iterator[Image]:
        for path in self.paths:
            yield read_image(path)

    def fingerprint(self) -> str:
        return cache.key(files=[digest(path) for path in self.paths])


def read_image(path: Path | str) -> Image:
    """Of 8 bits: one channel or three, as the file has them."""
    with opened(Path(path)) as image:
        if image.mode.startswith("I"):  # 16 bits of grey, which Pillow would cut off at 255
            return (np.asarray(image).astype(np.int64).clip(0, 65535) >> 8).astype(np.uint8)[..., None]
        if image.has_transparency_data:
            above = image.convert("RGBA")
            from PIL import Image as Pillow

            flat = Pillow.alpha_composite(Pillow.new("RGBA", above.size, WHITE), above)
            return np.asarray(flat.convert("L" if image.mode == "LA" else "RGB")).reshape(*above.size[::-1], -1)
        found = image if image.mode in ("L", "RGB") else image.convert("L" if image.mode == "1" else "RGB")
        return np.asarray(found).reshape(found.height, found.width, -1)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An image file, with Pillow's errors in one line."""
    try:
        from PIL import Image as Pillow
    except ImportError:
        raise ValueError(
            f"{path}: images are read through Pillow, which is not installed; pip install 'sublayer[image]', or give "
            "a NumPy file (.npy), or image:shapes"
        ) from None
    with reading(path):
        try:
            with Pillow.open(path) as image:
                yield image
        except (FileNotFoundError, PermissionError, IsADirectoryError):
            raise
        except (OSError, SyntaxError, ValueError, Pillow.DecompressionBombError) as error:
            why = "its content is none" if isinstance(error, Pillow.UnidentifiedImageError) else str(error)
            raise ValueError(f"{path}: not an image that can be read ({why}); leave it out, or save it anew") from None
