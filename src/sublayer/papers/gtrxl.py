"""GTrXL: Transformer-XL made stable enough for reinforcement learning."""

from sublayer.nn.model import Decoder
from sublayer.nn.residual import GruGate, PreNorm
from sublayer.papers.registry import paper


@paper(
    "gtrxl",
    parent="transformer-xl",
    cite="Parisotto et al. 2019, Stabilizing Transformers for Reinforcement Learning, arXiv:1910.06764",
)
def gtrxl(base: Decoder.Config) -> Decoder.Config:
    """Transformer-XL with the norm moved off the shortcut and a GRU gate in place of the sum."""
    return base.but(residual=PreNorm.Config(add=GruGate.Config(bias=2.0)))
