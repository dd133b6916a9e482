"""Longformer, Table 4: sizes of windows over the layers; other sparse patterns and dense attention beside them."""

from __future__ import annotations

from sublayer.comparison import Variant
from sublayer.measurement import Setting
from sublayer.nn.attention.pattern import BigBird, Causal, Fixed, Longformer, Pattern, Strided, Window
from sublayer.papers import registry
from sublayer.reproduction.claim import Claim, Finding, claim

GROWING, SAME, SHRINKING = "windows grow", "windows alike", "windows shrink"
DILATED, NARROW = "windows grow, some dilated", "windows alike, a quarter as large"
DENSE, STRIDED, FIXED, BIGBIRD = "dense", "strided", "fixed columns", "BigBird, looking back"
LENGTH, LARGE, SMALL = 2048, 512, 32
MEAN = (LARGE + SMALL) // 2

PATTERNS: dict[str, Pattern.Config] = {
    GROWING: Longformer.Config(smallest=SMALL, size=LARGE),
    SAME: Window.Config(size=MEAN),
    SHRINKING: Longformer.Config(smallest=LARGE, size=SMALL),
    DILATED: Longformer.Config(smallest=SMALL, size=LARGE, dilation=2),
    NARROW: Window.Config(size=MEAN // 4),
    STRIDED: Strided.Config(stride=128),
    FIXED: Fixed.Config(stride=128, summary=8),
    BIGBIRD: BigBird.Config(block=64, beside=1, globals=1, random=2, look="back"),
    DENSE: Causal.Config(),
}

SIZES = {"dim": 128, "layout": "(sf)x4", "s.heads": 4, "position": "rotary", "s.dropout": 0.0, "f.dropout": 0.0}
BUDGET = {
    "train.length": LENGTH,
    "train.batch": 2,
    "train.carry": False,
    "train.tokens": 1_000_000,
    "train.lr": 3e-3,
    "train.warmup": 50,
    "train.eval_tokens": 100_000,
}


@claim("longformer/windows")
def windows() -> Claim:
    order = [(GROWING, SAME), (GROWING, SHRINKING), (SAME, SHRINKING), (SAME, NARROW)]
    paper = {GROWING: 1.21, SAME: 1.23, SHRINKING: 1.24, DILATED: 1.20}
    base = registry.config("gpt2")
    return Claim(
        "longformer/windows",
        "Beltagy et al. 2020, Table 4",
        "Of windows of the same mean size, those that grow with depth are better than equal ones, and these better "
        "than those that shrink.",
        f"4 layers of width 128 on rows of {LENGTH} bytes, rotary positions, equal parameters and tokens; the paper's "
        "figures are of 12 layers of width 512 on text8, after 150,000 steps",
        [Variant(name, base, {"s.pattern": pattern}) for name, pattern in PATTERNS.items()],
        [
            Finding("bits_per_byte", "validation", "bits/byte", order, paper, less_is_better=True),
            Finding(
                "latency.latency",
                f"a pass over {LENGTH:,} tokens",
                "ms",
                [(SAME, DENSE)],
                less_is_better=True,
                form=lambda seconds: 1e3 * seconds,
            ),
            Finding(
                "step_memory",
                "memory of a training step",
                "MB",
                [(SAME, DENSE)],
                less_is_better=True,
                form=lambda bytes_taken: bytes_taken / 1e6,
            ),
        ],
        {**SIZES, **BUDGET},
        setting=Setting(task="segment", length=LENGTH),
    )
