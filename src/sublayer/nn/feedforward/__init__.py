"""Parts that treat each token by itself."""

from sublayer.nn.feedforward.activation import ACTIVATIONS, Activation
from sublayer.nn.feedforward.dense import Dense
from sublayer.nn.feedforward.glu import Glu

from sublayer.nn.feedforward import fused  # isort: skip  (a fast path, which registers itself)

__all__ = ["ACTIVATIONS", "Activation", "Dense", "Glu", "fused"]
