"""Images completed from their first rows."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from sublayer.data.tokenizer import Pixels
from sublayer.data.tokenizer.pixels import Image
from sublayer.generation.engine import OnStep, generate
from sublayer.generation.sampling import Sampling


def complete(
    model: nn.Module,
    pixels: Pixels,
    given: Sequence[Image],
    *,
    sampling: Sampling | None = None,
    seed: int | Sequence[int] = 0,
    on_step: OnStep = lambda written: None,
) -> list[Image]:
    """Whole images, each with the given rows on top; none given (0 rows) leaves all of it to the model.

    sampling: by default draws from the model's own distribution.
    """
    for n, rows in enumerate(given):
        _check(f"given[{n}]", rows, pixels)
        if len(rows) != len(given[0]):
            raise ValueError(f"given[{n}]: {len(rows)} rows, and {len(given[0])} of the first; give as many of each")
    prompts = [[pixels.start, *pixels.read(rows).tolist()] for rows in given]
    if not prompts:
        return []
    # The start stands before an image only, and a model may have ids beyond those of the data.
    never = tuple(range(pixels.start, model.config.vocab))  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    drawn = (sampling or Sampling(temperature=1.0)).but(never=never)
    found = generate(
        model, prompts, tokens=pixels.tokens + 1 - len(prompts[0]), sampling=drawn, seed=seed, on_step=on_step
    )
    return [pixels.show([*prompt[1:], *ids]) for prompt, ids in zip(prompts, found, strict=True)]


def _check(name: str, rows: Image, pixels: Pixels) -> None:
    height, width = pixels.config.height, pixels.config.width
    if rows.ndim != 3 or rows.shape[1] != width or rows.shape[0] > height or rows.shape[2] not in (1, 3):
        raise ValueError(
            f"{name}: an array of shape {rows.shape}, and the model's images have {height}×{width} pixels (height × "
            f"width); give up to {height} rows of {width} pixels with 1 or 3 channels"
        )
