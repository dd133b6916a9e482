"""Memorizing Transformer: one layer near the top looks up what it needs among all that was read."""

from sublayer.nn.attention import Memorizing, Window
from sublayer.nn.model import Decoder
from sublayer.nn.position import Rotary
from sublayer.papers.registry import paper


@paper("memorizing", parent="gpt2", cite="Wu et al. 2022, Memorizing Transformers, arXiv:2203.08913")
def memorizing(base: Decoder.Config) -> Decoder.Config:
    """Windows of 512 in all layers; the ninth of twelve also attends to the best 32 of 8,192 earlier keys.

    Sizes are the paper's: width 1,024, 8 heads of 128, feed-forwards of 4,096. Deviations: rotary positions in place of
    T5's biases; the window is exact, where the paper's cache is of a segment. The memory may be larger at inference
    than in training (`eval --memory`), and a model without it can learn to use it: `train memorizing train.start=RUN`,
    where RUN was trained with `layout=(sf)x12`.
    """
    return base.but(
        {
            "s.heads": 8,
            "s.pattern": Window.Config(size=512),
            "stack.alphabet.m": Memorizing.Config(heads=8, dropout=0.1, window=512, size=8192, neighbours=32),
            "f.inner": 4096,
        },
        dim=1024,
        layout="(sf)x8 mf (sf)x3",
        position=Rotary.Config(),
    )
