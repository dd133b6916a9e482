"""How attention weights are formed from queries and keys."""

from sublayer.nn.attention.kernel.base import Kernel, Load, View
from sublayer.nn.attention.kernel.delta import Delta
from sublayer.nn.attention.kernel.linear import Linear
from sublayer.nn.attention.kernel.linformer import Linformer
from sublayer.nn.attention.kernel.linformer_causal import LinformerCausal
from sublayer.nn.attention.kernel.performer import Performer
from sublayer.nn.attention.kernel.retention import Retention
from sublayer.nn.attention.kernel.rfa import RFA
from sublayer.nn.attention.kernel.softmax import Softmax, attend

from sublayer.nn.attention.kernel import native_recurrence  # isort: skip  (a fast path)

__all__ = [
    "RFA",
    "Delta",
    "Kernel",
    "Linear",
    "Linformer",
    "LinformerCausal",
    "Load",
    "Performer",
    "Retention",
    "Softmax",
    "View",
    "attend",
    "native_recurrence",
]
