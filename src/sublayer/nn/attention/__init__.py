"""Parts in which places look at each other."""

from sublayer.nn.attention.cross import Cross
from sublayer.nn.attention.multihead import MultiHead
from sublayer.nn.attention.pattern import Causal, Full, Pattern, Window
from sublayer.nn.attention.span import AdaptiveSpan, FullSpan, Span

__all__ = ["AdaptiveSpan", "Causal", "Cross", "Full", "FullSpan", "MultiHead", "Pattern", "Span", "Window"]
