"""Which models the step in C serves, and why it does not serve another.

It asks for exact classes: a subclass may compute anything. Nothing is computed here, so that models on the meta device
can be asked, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sublayer.generation.native.source import SOURCE
from sublayer.native import load
from sublayer.native.pointwise import ACTIVATIONS
from sublayer.native.tensors import plain
from sublayer.nn.attention import MultiHead, Softmax
from sublayer.nn.attention.one_query import kinds_of
from sublayer.nn.attention.recall import Recall
from sublayer.nn.embedding import Embedding, LinearHead, TiedHead
from sublayer.nn.feedforward import Dense, Glu, activation
from sublayer.nn.hooked import hooked
from sublayer.nn.memory import Cache, Segment
from sublayer.nn.model import Decoder
from sublayer.nn.paths import Mode
from sublayer.nn.position import Alibi, NoPosition, Position, RelativeKey, RelativeXL, Rotary
from sublayer.nn.residual import PostNorm, PreNorm, RMSNorm, Sum
from sublayer.nn.stack import Feedback, Plain
from sublayer.nn.stack.compose import Compose


class NotServed(Exception):  # noqa: N818 (it is no error: the plain code runs)
    """The reason why the step in C does not serve a model."""


def why_not(model: nn.Module, mode: Mode) -> str | None:
    """Why the step in C does not serve this model; None if it does."""
    try:
        _check(model, mode)
    except NotServed as reason:
        return str(reason)
    return None


def is_matrix(head: nn.Module) -> bool:
    """Whether the head's scores are one matrix times the hidden vector."""
    if hooked(head) or type(head) not in (LinearHead, TiedHead):
        return False
    tied = isinstance(head, TiedHead)
    return not (tied and (head.project or type(head.embedding).leave is not Embedding.leave))


def activation_of(part: Dense | Glu) -> str:
    act = activation.ACTIVATIONS[part.activation] if isinstance(part, Dense) else part.act
    return next((name for name, function in activation.ACTIVATIONS.items() if function is act), "of your own")


def _check(model: nn.Module, mode: Mode) -> None:
    if mode != "generation":
        raise NotServed("it serves generation only")
    decoder = _expect(model, Decoder)
    stack = _expect(decoder.stack, Plain, Feedback)
    if isinstance(stack, Feedback):
        _check_memory(stack)
    for n, sublayer in enumerate(stack.sublayers):
        _named(f"sublayer {n}", _check_sublayer, sublayer, decoder.config.dim)
    _named("final_norm", _check_norm, stack.final_norm, decoder.config.dim)
    head = (decoder.head.matrix, decoder.head.bias_V) if is_matrix(decoder.head) else ()
    for tensor in (*stack.parameters(), *head):
        _check_floats(tensor)
    if torch.is_autocast_enabled("cpu"):
        raise NotServed("autocast is on")
    if load(SOURCE, "generation") is None:
        raise NotServed("there is no C library: no compiler, or SUBLAYER_NATIVE=0")


def _named(where: str, check: Callable[..., None], *given: Any) -> None:
    try:
        check(*given)
    except NotServed as reason:
        raise NotServed(f"{where}: {reason}") from None


def _check_memory(stack: Feedback) -> None:
    compose = stack.compose
    if hooked(compose) or type(compose).forward is not Compose.forward:
        raise NotServed(f"compose: {_no_code(compose)}")
    for buffer in compose.buffers():
        _check_floats(buffer)
    for n in range(len(stack.config.streams)):
        norm, matrix = stack.projection(n)
        _named("memory", _check_norm, norm, matrix.in_features)
        _named("memory", _expect, matrix, nn.Linear)


def _check_sublayer(residual: nn.Module, dim: int) -> None:
    sublayer = _expect(residual, PreNorm, PostNorm)
    _expect(sublayer.add, Sum)
    _expect(sublayer.drop, nn.Identity, nn.Dropout)
    part = _expect(sublayer.part, MultiHead, Recall, Dense, Glu)
    if isinstance(part, (MultiHead, Recall)):
        _check_attention(part)
    else:
        _check_feedforward(part)
    _check_norm(sublayer.norm, dim)


def _check_attention(part: MultiHead | Recall) -> None:
    config = part.config
    if not config.pattern.contiguous:
        _check_listed(part)
    if type(config.kernel) is not Softmax.Config:
        raise NotServed(f"no C code for kernel={config.kernel.tag}")
    if type(config.memory) not in (Cache.Config, Segment.Config):
        raise NotServed(f"no C code for memory={config.memory.tag}")
    if part.span is not None:
        raise NotServed(f"no C code for span={config.span.tag}")
    if isinstance(part, MultiHead):
        _expect(part.memory, Cache, Segment)
        _expect(part.kernel, Softmax)
    position = _expect(part.position, Position, NoPosition, Rotary, Alibi, RelativeXL, RelativeKey)
    if isinstance(position, RelativeXL) and config.reach is None:
        raise NotServed("position=relative_xl needs a memory of bounded length")
    for matrix in (part.query if isinstance(part, Recall) else part.qkv, part.output):
        _expect(matrix, nn.Linear)


def _check_listed(part: MultiHead | Recall) -> None:
    """A pattern that hides some of the last tokens."""
    pattern = part.config.pattern
    if not isinstance(part, MultiHead):
        raise NotServed(f"no C code for pattern={pattern.tag} in a stack that stores the keys")
    if not pattern.causal or any(kind.ranges(0) is None for kind in kinds_of(pattern, part.heads)):
        raise NotServed(f"pattern={pattern.tag} does not list the keys of one query")


def _check_feedforward(part: Dense | Glu) -> None:
    _expect(part.drop, nn.Identity, nn.Dropout)
    if (name := activation_of(part)) not in ACTIVATIONS:
        raise NotServed(f"no C code for activation {name}")
    _expect(part.enter, nn.Linear)
    _expect(part.output, nn.Linear)


def _check_norm(norm: nn.Module, dim: int) -> None:
    _expect(norm, nn.Identity, nn.LayerNorm, RMSNorm)
    if not isinstance(norm, nn.Identity) and (norm.weight is None or norm.weight.shape != (dim,)):
        raise NotServed(f"{type(norm).__name__} without a gain for each of {dim} features")


def _check_floats(tensor: Tensor | None) -> None:
    if tensor is None:
        return
    described = tensor.device.type == "meta" and tensor.dtype == torch.float32
    if not described and not plain(tensor):
        raise NotServed(f"a tensor of {tensor.dtype} on {tensor.device}: it computes with float32 on a CPU")


def _expect(module: nn.Module | None, *kinds: type) -> Any:
    """The module, if it is of one of these very classes and its calls have no hooks."""
    if module is None or type(module) not in kinds:
        raise NotServed(_no_code(module))
    if hooked(module):
        raise NotServed(f"{type(module).__name__} has hooks, or a forward of its own")
    return module


def _no_code(module: nn.Module | None) -> str:
    return f"no C code for {type(module).__name__}"
