"""Random feature attention, and the gate by which it forgets."""

from sublayer.nn.attention.kernel import RFA
from sublayer.nn.model import Decoder
from sublayer.papers.registry import paper

PENG = "Peng et al. 2021, Random Feature Attention, arXiv:2103.02143"


NEARER = {"s.kernel.features": (16, 64, 256)}


@paper("rfa", parent="transformer-lm", cite=f"{PENG} (small language model)", nearer=NEARER)
def rfa(base: Decoder.Config) -> Decoder.Config:
    """A decoder of 6 layers of width 512: queries and keys of length 1, softmax estimated by 64 sines and cosines."""
    return base.but({"s.kernel": RFA.Config(features=64)})


@paper("rfa-gate", parent="rfa", cite=f"{PENG} (small language model, with the gate)", nearer=NEARER)
def rfa_gate(base: Decoder.Config) -> Decoder.Config:
    """The sums fade by a gate that each token sets, so that recent tokens count for more."""
    return base.but({"s.kernel.gate": True})
