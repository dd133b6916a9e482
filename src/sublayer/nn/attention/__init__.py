"""Parts in which tokens look at each other."""

from sublayer.nn.attention.cross import Cross
from sublayer.nn.attention.etc import EtcAttention
from sublayer.nn.attention.kernel import Kernel, Load, Softmax, View
from sublayer.nn.attention.longformer_attention import LongformerAttention
from sublayer.nn.attention.lsh import Lsh
from sublayer.nn.attention.memorizing import Memorizing
from sublayer.nn.attention.memory_compressed import MemoryCompressed
from sublayer.nn.attention.multihead import MultiHead
from sublayer.nn.attention.pattern import Causal, Full, Pattern, Window
from sublayer.nn.attention.routing import Routing
from sublayer.nn.attention.span import AdaptiveSpan, FullSpan, Span

from sublayer.nn.attention import native, banded  # isort: skip  (fast paths, asked in this order)

__all__ = [
    "AdaptiveSpan",
    "Causal",
    "Cross",
    "EtcAttention",
    "Full",
    "FullSpan",
    "Kernel",
    "Load",
    "LongformerAttention",
    "Lsh",
    "Memorizing",
    "MemoryCompressed",
    "MultiHead",
    "Pattern",
    "Routing",
    "Softmax",
    "Span",
    "View",
    "Window",
    "banded",
    "native",
]
