"""Slots by a convolution."""

from sublayer.nn.memory.compressor.learned import Learned


class Convolution(Learned):
    """W [x_1 … x_c] + b for each slot: a 1-D convolution with kernel and stride c, the rate (Rae et al. 2019, 3.2)."""

    class Config(Learned.Config, tag="convolution"):
        pass
