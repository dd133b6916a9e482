"""The fast step of plain decoders, in C; its slow twin is the model."""

from sublayer.generation.native.plain import NotPlain
from sublayer.generation.native.step import NativeStep

__all__ = ["NativeStep", "NotPlain"]
