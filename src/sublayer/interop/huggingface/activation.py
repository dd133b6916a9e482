"""Activations by Hugging Face's names and by ours."""

from __future__ import annotations

from sublayer.interop.huggingface.entries import CheckpointError
from sublayer.nn.feedforward import Activation

OURS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "silu": "swish",
    "swish": "swish",
    "sigmoid": "sigmoid",
    "linear": "linear",
}
"""Theirs → ours. Those that share one of ours differ in rounding only; the first of them is the one written."""


def theirs(activation: Activation) -> str:
    for name, ours in OURS.items():
        if ours == activation:
            return name
    known = ", ".join(dict.fromkeys(OURS.values()))
    raise CheckpointError(f"activation is {activation!r}, which Hugging Face has no name for; use one of {known}")
