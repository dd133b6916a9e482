"""`sublayer generate --image`: a trained model completes images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sublayer.progress import Display

if TYPE_CHECKING:
    from sublayer.data.tokenizer import Pixels
    from sublayer.data.tokenizer.pixels import Image
    from sublayer.trained import Trained

SHOWN = 8
"""Images of the test split that are completed, where no number is given."""


def write_images(
    trained: Trained,
    out: str,
    prompts: list[str],
    images: int | None,
    rows: int | None,
    seed: int,
    sampling: dict[str, Any],
) -> None:
    """Complete images and write them into one PNG: where the whole images are known, these stand in a first line."""
    from sublayer.data.images import png
    from sublayer.data.images.sheet import sheet
    from sublayer.runs.wording import plural

    if not out.lower().endswith(".png"):
        raise ValueError(f"--image {out}: is written as PNG; give a name that ends in .png")
    if prompts and images is not None:
        raise ValueError(f"--images {images}: counts images of the test split; leave it out beside --prompt-image")
    pixels = trained.pixels
    whole = (
        [_read(path, pixels) for path in prompts] if prompts else _of_test(trained, SHOWN if images is None else images)
    )
    given = _rows(whole, rows, pixels)
    with Display("completing", pixels.tokens - given * pixels.row) as display:
        tops = [image[:given] for image in whole]
        found = trained.complete(tops, seed=seed, on_step=display.update, **sampling)
    lines = [found] if any(len(image) < pixels.config.height for image in whole) else [whole, found]
    png.write(out, sheet(lines, given))
    above = ", below the images as they are" if len(lines) > 1 else ""
    print(f"{out}: {plural(len(found), 'image')} with {given} of {pixels.config.height} rows given{above}")


def _of_test(trained: Trained, count: int) -> list[Image]:
    """The first images of the test split, in the model's levels."""
    from sublayer.evaluation import own_text

    if count < 1:
        raise ValueError(f"--images {count}: expected at least 1")
    split = own_text(trained.run).tokens
    return [trained.pixels.show(split.levels_NT[n]) for n in split.number_E[:count]]


def _read(path: str, pixels: Pixels) -> Image:
    from sublayer.data.images import read_image

    image, (height, width) = read_image(path), (pixels.config.height, pixels.config.width)
    if image.shape[1] != width or image.shape[0] > height:
        raise ValueError(
            f"{path}: has {image.shape[0]}×{image.shape[1]} pixels (height × width), and the model's images "
            f"{height}×{width}; give one of that size, or its first rows"
        )
    return pixels.show(pixels.read(image))


def _rows(whole: list[Image], rows: int | None, pixels: Pixels) -> int:
    """How many rows are given: by default half of whole images, or all that there are of others."""
    there, height = min(map(len, whole)), pixels.config.height
    if rows is None:
        return height // 2 if there == height else there
    if not 0 <= rows <= there:
        raise ValueError(f"--rows {rows}: expected 0 to {there}, the rows that there are; 0 leaves all to the model")
    return rows
