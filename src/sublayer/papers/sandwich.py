"""Sandwich: attentions first, feed-forwards last. The rule applies to any base: `layout=sandwich(6)`."""

from sublayer.nn.model import Decoder
from sublayer.papers.registry import paper

PRESS = "Press, Smith & Levy 2020, Improving Transformer Models by Reordering their Sublayers, arXiv:1911.03864"


@paper("sandwich-base", parent="transformer-xl-base", cite=PRESS, facts={"params": 191_950_298})
def sandwich_base(base: Decoder.Config) -> Decoder.Config:
    """Transformer-XL base with 6 attentions moved to the bottom and 6 feed-forwards to the top."""
    return base.but(layout="sandwich(6)")


@paper("sandwich-large", parent="transformer-xl-large", cite=PRESS)
def sandwich_large(base: Decoder.Config) -> Decoder.Config:
    """Transformer-XL large with 6 attentions moved to the bottom and 6 feed-forwards to the top."""
    return base.but(layout="sandwich(6)")


@paper("sandwich-24-enwik8", parent="transformer-xl-24", cite=PRESS)
def sandwich_24_enwik8(base: Decoder.Config) -> Decoder.Config:
    """The byte model with 5 attentions at the bottom and 5 feed-forwards at the top, the best found for enwik8."""
    return base.but(layout="sandwich(5)")


@paper("sandwich-24-text8", parent="transformer-xl-24", cite=PRESS)
def sandwich_24_text8(base: Decoder.Config) -> Decoder.Config:
    """The byte model with 3 attentions at the bottom and 3 feed-forwards at the top, the best found for text8."""
    return base.but(layout="sandwich(3)")
