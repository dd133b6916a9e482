"""The structs of loop.h, field by field in its order."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_int64, c_void_p

from sublayer.native.pointwise import NormStruct


class LoopMatrix(Structure):
    _fields_ = [
        ("in_", c_int64),
        ("out", c_int64),
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("down", c_int64),
        ("right", c_int64),
        ("panels", c_void_p),
    ]


class LoopSublayer(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("attends", "gated", "activation", "keys", "sees", "fades", "drops", "source")),
        *((name, c_void_p) for name in ("fade", "source_k", "source_v")),
        ("before", NormStruct),
        ("after", NormStruct),
        ("enter", LoopMatrix),
        ("leave", LoopMatrix),
        *((name, c_void_p) for name in ("sum", "h", "q", "y", "weights", "stay", "stay_out")),
        *((name, c_void_p) for name in ("to_out", "to_in", "to_sum", "to_stream", "to_scores", "to_y")),
    ]


SIZES = "rows", "dim", "tokens", "heads", "groups", "size", "memory", "capacity", "sets", "streams", "layers"


class LoopStruct(Structure):
    _fields_ = [
        *((name, c_int64) for name in (*SIZES, "sublayers", "threads", "by_rows")),
        ("sublayer", POINTER(LoopSublayer)),
        ("ends", POINTER(c_int64)),
        ("stream", POINTER(c_int64)),
        ("compose", c_void_p),
        ("entry", NormStruct),
        ("project", POINTER(LoopMatrix)),
        ("near", LoopMatrix),
        *((name, c_void_p) for name in ("mask", "source_mask", "cos", "sin")),
        ("rotations", c_int64),
        *((name, c_void_p) for name in ("x", "k", "v", "m")),
        *((name, c_void_p) for name in ("to_last", "to_first", "to_k", "to_v", "to_kv", "to_m")),
        *((name, c_void_p) for name in ("wide", "made", "room")),
        ("private", c_int64),
        ("vectors", c_int64),
    ]


WIDE, DEEP = 24, 256
"""As in panels.h."""
