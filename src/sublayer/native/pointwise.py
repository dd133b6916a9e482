"""The struct and the enums of pointwise.h."""

from __future__ import annotations

from ctypes import Structure, c_double, c_int64, c_void_p

NORMS = {"none": 0, "layer": 1, "rms": 2}
ACTIVATIONS = {"relu": 0, "gelu": 1, "gelu_tanh": 2, "swish": 3, "sigmoid": 4, "linear": 5}


class NormStruct(Structure):
    _fields_ = [("kind", c_int64), ("gain", c_void_p), ("shift", c_void_p), ("eps", c_double)]
