"""The structs of step.c, field by field in its order."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_int64, c_void_p

from sublayer.native.pointwise import NormStruct


class StepMatrix(Structure):
    _fields_ = [("out", c_int64), ("in_", c_int64), ("weight", c_void_p), ("bias", c_void_p)]


class CacheStruct(Structure):
    _fields_ = [
        ("groups", c_int64),
        ("size", c_int64),
        ("capacity", c_int64),
        ("held", c_int64),
        ("key", c_void_p),
        ("value", c_void_p),
        ("rotation", c_void_p),
        ("stream", c_int64),
        ("norm", NormStruct),
        ("made", StepMatrix),
    ]


class StepSublayer(Structure):
    _fields_ = [
        ("attends", c_int64),
        ("after", c_int64),
        ("ends", c_int64),
        ("norm", NormStruct),
        ("enter", StepMatrix),
        ("leave", StepMatrix),
        ("heads", c_int64),
        ("cache", c_int64),
        ("reach", c_int64),
        ("ranges", c_void_p),
        ("begins", c_void_p),
        ("lists", c_void_p),
        ("slope", c_void_p),
        ("content", c_void_p),
        ("distance", c_void_p),
        ("far", c_void_p),
        ("reaches", c_int64),
        ("apart", c_int64),
        ("gated", c_int64),
        ("activation", c_int64),
    ]


class Step(Structure):
    _fields_ = [
        ("rows", c_int64),
        ("dim", c_int64),
        ("sublayers", c_int64),
        ("caches", c_int64),
        ("threads", c_int64),
        ("start", c_int64),
        ("first", c_void_p),
        ("sublayer", POINTER(StepSublayer)),
        ("cache", POINTER(CacheStruct)),
        ("streams", c_int64),
        ("layers", c_int64),
        ("compose", c_void_p),
        ("memory", c_void_p),
        ("norm", NormStruct),
        ("head", StepMatrix),
        ("stream", c_void_p),
        ("wide", c_void_p),
        ("joined", c_void_p),
        ("room", c_void_p),
        ("out", c_void_p),
        ("private", c_int64),
        ("columns", c_int64),
    ]
