"""DA-Transformer: attention scores scaled by distance."""

from sublayer.nn.embedding import Classify
from sublayer.nn.model import Encoder, EncoderDecoder
from sublayer.nn.position import Distance
from sublayer.papers.registry import paper


@paper(
    "da-transformer",
    parent="transformer",
    cite="Wu et al. 2021, DA-Transformer: Distance-aware Transformer, arXiv:2010.06925",
)
def da_transformer(base: EncoderDecoder.Config) -> Encoder.Config:
    """An encoder that classifies texts: each head learns how distance scales its positive scores.

    Sizes follow section 4.2 as far as it gives them: 300-dimensional words, 10 heads; two layers.
    """
    stack = base.encoder.but({"s.heads": 10, "f.inner": 1200}, layout="(sf)x2", position=Distance.Config())
    return Encoder.Config(vocab=50000, dim=300, stack=stack, head=Classify.Config(classes=5))
