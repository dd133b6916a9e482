"""Image Transformer, section 5.2: blocks of two dimensions beside blocks of one."""

from __future__ import annotations

from sublayer.comparison import Variant
from sublayer.nn.attention.pattern import BlockLocal, BlockLocal2D, Pattern
from sublayer.papers import registry
from sublayer.reproduction.claim import Claim, Finding, claim

ONE, TWO = "blocks of three rows", "rectangles"
SIDE = 24

PATTERNS: dict[str, Pattern.Config] = {
    ONE: BlockLocal.Config(size=3 * SIDE, before=3 * SIDE),
    TWO: BlockLocal2D.Config(width=SIDE, rows=8, columns=8, above=4, beside=4),
}
"""Both show a query 107 earlier pixels on average, where the image has as many above it."""

SIZES = {"dim": 64, "layout": "(sf)x2", "s.heads": 4, "f.inner": 256, "residual.dropout": 0.0, "embedding.dropout": 0.0}
BUDGET = {
    "data.size": SIDE,
    "data.levels": 16,
    "train.batch": 8,
    "train.tokens": 1_500_000,
    "train.lr": 3e-3,
    "train.warmup": 50,
}


@claim("image-transformer/two-dimensional")
def two_dimensional() -> Claim:
    base = registry.config("image-transformer")
    return Claim(
        "image-transformer/two-dimensional",
        "Parmar et al. 2018, section 5.2",
        "Blocks of two dimensions give better images than blocks of one, which hold as many pixels.",
        f"2 layers of width 64 on drawn shapes of {SIDE} × {SIDE} pixels in 16 greys, by bits a dimension; the paper "
        "has 12 layers of width 512 on photographs, and people who judge them",
        [Variant(name, base, {"s.pattern": pattern}) for name, pattern in PATTERNS.items()],
        [Finding("test.bits_per_dim", "test", "bits/dim", [(TWO, ONE)], less_is_better=True)],
        {**SIZES, **BUDGET},
        data="image:shapes",
    )
