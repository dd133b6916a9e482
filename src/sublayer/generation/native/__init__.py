"""The fast step of decoders, in C; its slow twin is the model."""

from sublayer.generation.native.step import NativeStep
from sublayer.generation.native.tensors import NotPlain

__all__ = ["NativeStep", "NotPlain"]
