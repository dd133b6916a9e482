"""Performer: softmax attention estimated by positive orthogonal random features."""

from sublayer.nn.attention.kernel import Performer
from sublayer.nn.model import Decoder
from sublayer.papers.registry import paper

CHOROMANSKI = "Choromanski et al. 2021, Rethinking Attention with Performers, arXiv:2009.14794"


@paper(
    "performer",
    parent="transformer-lm",
    cite=f"{CHOROMANSKI} (the regular sizes of section 4.1)",
    nearer={"s.kernel.features": (64, 256, 1024)},
)
def performer(base: Decoder.Config) -> Decoder.Config:
    """A decoder of 6 layers of width 512 whose attention is an estimate of softmax with 256 random features.

    Its work is linear in the length of the text; what it stores for generation does not grow.
    """
    return base.but({"s.kernel": Performer.Config(features=256)})
