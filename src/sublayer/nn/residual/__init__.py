"""Norms, and ways to add a part to the stream."""

from sublayer.nn.residual.add import (
    Add,
    Gate,
    GruGate,
    HighwayGate,
    InputGate,
    OutputGate,
    SigmoidTanhGate,
    Sum,
)
from sublayer.nn.residual.base import Residual
from sublayer.nn.residual.layer_drop import LayerDrop
from sublayer.nn.residual.norm import LayerNorm, NoNorm, Norm, RMSNorm
from sublayer.nn.residual.normed import PostNorm, PreNorm
from sublayer.nn.residual.rezero import ReZero

__all__ = [
    "Add",
    "Gate",
    "GruGate",
    "HighwayGate",
    "InputGate",
    "LayerDrop",
    "LayerNorm",
    "NoNorm",
    "Norm",
    "OutputGate",
    "PostNorm",
    "PreNorm",
    "RMSNorm",
    "ReZero",
    "Residual",
    "SigmoidTanhGate",
    "Sum",
]
