"""Shaw: relative positions on keys and values."""

from sublayer.nn.model import EncoderDecoder
from sublayer.nn.position import Shaw
from sublayer.papers.registry import paper


@paper(
    "shaw",
    parent="transformer",
    cite="Shaw et al. 2018, Self-Attention with Relative Position Representations, arXiv:1803.02155",
)
def shaw(base: EncoderDecoder.Config) -> EncoderDecoder.Config:
    """The first Transformer with a trained vector for each distance up to 16, in place of sinusoids."""
    position = Shaw.Config(clip=16)
    return base.but({"encoder.position": position, "decoder.position": position})
