"""Compressive Transformer, section 5: slots of compressed tokens against as many tokens of a plain memory."""

from __future__ import annotations

from sublayer.comparison import Variant
from sublayer.measurement import Setting
from sublayer.nn.memory import Compressive, Memory, Segment
from sublayer.nn.memory.compressor import Compressor, Convolution, MaxPool, MeanPool, MostUsed
from sublayer.papers import registry
from sublayer.reproduction.claim import Claim, Finding, claim

LENGTH, STORED, SLOTS, RATE = 64, 64, 64, 4
PLAIN, LONG = "Transformer-XL", "Transformer-XL, reaching as far"
CONVOLUTION, ENCODER, MEAN, MAX, USED = "convolution", "convolution, auto-encoding", "mean", "max", "most used"


def compressed(compressor: Compressor.Config) -> Compressive.Config:
    return Compressive.Config(length=STORED, compressed=SLOTS, rate=RATE, compressor=compressor)


MEMORIES: dict[str, Memory.Config] = {
    PLAIN: Segment.Config(length=STORED + SLOTS),
    CONVOLUTION: compressed(Convolution.Config()),
    ENCODER: compressed(Convolution.Config(loss="auto_encoding")),
    MEAN: compressed(MeanPool.Config()),
    MAX: compressed(MaxPool.Config()),
    USED: compressed(MostUsed.Config()),
    LONG: Segment.Config(length=STORED + RATE * SLOTS),
}


SIZES = {
    "dim": 128,
    "layout": "(sf)x4",
    "s.heads": 4,
    "f.inner": 512,
    "position.clamp": None,
    "s.dropout": 0.0,
    "f.dropout": 0.0,
    "residual.dropout": 0.0,
    "embedding.dropout": 0.0,
}
BUDGET = {
    "train.length": LENGTH,
    "train.batch": 16,
    "train.tokens": 2_000_000,
    "train.lr": 2e-3,
    "train.warmup": 100,
    "train.eval_tokens": 100_000,
}


@claim("compressive/memory")
def memory() -> Claim:
    base = registry.config("transformer-xl-24")
    return Claim(
        "compressive/memory",
        "Rae et al. 2019, section 5.2",
        "With as many slots to attend to, compressed memory is better than Transformer-XL's, and a convolution that "
        "learns to give what attention reads compresses best.",
        f"4 layers of width 128, segments of {LENGTH} bytes; {STORED} tokens and {SLOTS} slots of {RATE} tokens each, "
        f"against {STORED + SLOTS} tokens, and against {STORED + RATE * SLOTS}, as far as the slots reach; the paper "
        "has 24 layers of width 1,024",
        [Variant(name, base, {"s.memory": held}) for name, held in MEMORIES.items()],
        [
            Finding(
                "bits_per_byte",
                "validation",
                "bits/byte",
                [(CONVOLUTION, PLAIN), *((CONVOLUTION, other) for other in (ENCODER, MEAN, MAX, USED))],
                {PLAIN: 0.99, CONVOLUTION: 0.97},
                less_is_better=True,
            ),
            Finding(
                "latency.latency",
                f"a segment of {LENGTH} after a full memory",
                "ms",
                [(CONVOLUTION, LONG)],
                less_is_better=True,
                form=lambda seconds: 1e3 * seconds,
            ),
        ],
        {**SIZES, **BUDGET},
        setting=Setting(task="segment", length=LENGTH),
    )
