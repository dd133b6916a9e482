"""How attention weights are formed from queries and keys."""

from sublayer.nn.attention.kernel.base import Kernel, View
from sublayer.nn.attention.kernel.softmax import Softmax, attend

__all__ = ["Kernel", "Softmax", "View", "attend"]
