"""Parts in which places look at each other."""

from sublayer.nn.attention.cross import Cross
from sublayer.nn.attention.multihead import MultiHead
from sublayer.nn.attention.pattern import Causal, Full, Pattern, Window

__all__ = ["Causal", "Cross", "Full", "MultiHead", "Pattern", "Window"]
