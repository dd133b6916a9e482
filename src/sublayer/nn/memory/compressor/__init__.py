"""How a compressive memory makes few slots of many tokens."""

from sublayer.nn.memory.compressor.base import Compressor, Eviction
from sublayer.nn.memory.compressor.convolution import Convolution
from sublayer.nn.memory.compressor.dilated import Dilated
from sublayer.nn.memory.compressor.most_used import MostUsed
from sublayer.nn.memory.compressor.pooled import MaxPool, MeanPool

__all__ = ["Compressor", "Convolution", "Dilated", "Eviction", "MaxPool", "MeanPool", "MostUsed"]
