"""ALiBi: train short, test long."""

from sublayer.nn.embedding import AdaptiveEmbedding, AdaptiveSoftmax
from sublayer.nn.model import Decoder
from sublayer.nn.position import Alibi
from sublayer.nn.residual import LayerNorm, PreNorm
from sublayer.papers.registry import paper

CUTOFFS = (20000, 60000)


@paper(
    "alibi",
    parent="transformer-lm",
    cite="Press et al. 2022, Train Short, Test Long: Attention with Linear Biases, arXiv:2108.12409",
)
def alibi(base: Decoder.Config) -> Decoder.Config:
    """No position vectors: each head takes off its own penalty per step of distance.

    The WikiText-103 model of section 4.1: the adaptive-input decoder of Baevski & Auli, 16 layers of 1,024.
    """
    return base.but(
        {"s.heads": 8, "f.inner": 4096},
        vocab=267744,
        dim=1024,
        layout="(sf)x16",
        embedding=AdaptiveEmbedding.Config(cutoffs=CUTOFFS, factor=4, dropout=0.3),
        position=Alibi.Config(),
        residual=PreNorm.Config(dropout=0.3),
        final_norm=LayerNorm.Config(),
        head=AdaptiveSoftmax.Config(cutoffs=CUTOFFS, factor=4, tied=True),
    )
