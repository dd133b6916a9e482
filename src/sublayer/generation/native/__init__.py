"""The fast step of decoders, in C: a path of the job "generation", whose plain code is the model itself."""

from sublayer.generation.native.reader import NativeReader
from sublayer.generation.native.step import NativeStep

__all__ = ["NativeReader", "NativeStep"]
