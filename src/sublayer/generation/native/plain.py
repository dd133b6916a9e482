"""A model as step.c takes it, where it is plain enough; or what in it is not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sublayer.generation.native.form import ACTIVATIONS, NORMS, Matrix, Norm, Sublayer, address
from sublayer.nn.attention import Causal, MultiHead, Window
from sublayer.nn.embedding import Embedding, Head, LinearHead, TiedHead
from sublayer.nn.feedforward import Dense, Glu, activation
from sublayer.nn.hooked import hooked
from sublayer.nn.model import Decoder
from sublayer.nn.position import Alibi, NoPosition, Position, RelativeXL, Rotary
from sublayer.nn.position.alibi import slopes
from sublayer.nn.residual import PostNorm, PreNorm, RMSNorm, Sum
from sublayer.nn.stack import Plain


class NotPlain(Exception):  # noqa: N818 (it is what it says)
    """What the native step has no twin for."""


class Description:
    """The stack of a plain decoder, its matrices and norms by address; it holds the tensors behind them."""

    def __init__(self, model: nn.Module) -> None:
        self.tensors: list[Tensor] = []
        self.rotary: dict[int, Rotary] = {}
        """By sublayer; its angles depend on how long texts get, so whoever knows that has to add them."""
        decoder = expect(model, Decoder)
        stack = expect(decoder.stack, Plain)
        self.dim: int = decoder.config.dim
        self.sublayers = [self._sublayer(n, sublayer) for n, sublayer in enumerate(stack.sublayers)]
        self.norm = self._norm(stack.final_norm)
        self.head = self._head(decoder.head)

    @property
    def weights(self) -> int:
        """Multiplications of one token in all sublayers but for attention itself."""
        return sum(m.out * m.in_ for sublayer in self.sublayers for m in (sublayer.enter, sublayer.leave))

    def _sublayer(self, n: int, residual: nn.Module) -> Sublayer:
        sublayer = expect(residual, PreNorm, PostNorm)
        expect(sublayer.add, Sum)
        expect(sublayer.drop, nn.Identity, nn.Dropout)
        part = expect(sublayer.part, MultiHead, Dense, Glu)
        fields = self._attention(n, part) if isinstance(part, MultiHead) else self._feedforward(part)
        return Sublayer(after=isinstance(sublayer, PostNorm), norm=self._norm(sublayer.norm), **fields)

    def _attention(self, n: int, part: MultiHead) -> dict[str, Any]:
        pattern, reach = part.config.pattern, part.config.reach
        if type(pattern) not in (Causal.Config, Window.Config):
            raise NotPlain(f"pattern {pattern.tag}")
        if part.span is not None:
            raise NotPlain(f"span {part.config.span.tag}")
        position = expect(part.position, Position, NoPosition, Rotary, Alibi, RelativeXL)
        if isinstance(position, Rotary):
            self.rotary[n] = position
        return {
            "attends": 1,
            "enter": self._linear(part.qkv),
            "leave": self._linear(part.output),
            "heads": part.heads,
            "groups": part.groups,
            "size": part.head_dim,
            "reach": -1 if reach is None else reach,
            **self._position(position, reach),
        }

    def _position(self, position: Position, reach: int | None) -> dict[str, Any]:
        if isinstance(position, Alibi):
            return {"slope": self._keep(torch.tensor(slopes(position.heads, position.base), **FLOATS))}
        if not isinstance(position, RelativeXL):
            return {}
        if reach is None:
            raise NotPlain("relative_xl on a memory without end")
        far_HRK = position.table(reach + 1).transpose(1, 2)
        return {
            "content": self._keep(position.terms.u_D),
            "distance": self._keep(position.terms.v_D),
            "far": self._keep(far_HRK),
            "reaches": reach + 1,
        }

    def _feedforward(self, part: Dense | Glu) -> dict[str, Any]:
        expect(part.drop, nn.Identity, nn.Dropout)
        act = activation.ACTIVATIONS[part.activation] if isinstance(part, Dense) else part.act
        name = next((name for name, function in activation.ACTIVATIONS.items() if function is act), "of your own")
        if name not in ACTIVATIONS:
            raise NotPlain(f"activation {name}")
        return {
            "enter": self._linear(part.enter),
            "leave": self._linear(part.output),
            "gated": isinstance(part, Glu),
            "activation": ACTIVATIONS[name],
        }

    def _linear(self, layer: nn.Module) -> Matrix:
        linear = expect(layer, nn.Linear)
        return self._matrix(linear.weight, linear.bias)

    def _matrix(self, weight: Tensor, bias: Tensor | None) -> Matrix:
        return Matrix(*weight.shape, self._keep(weight), self._keep(bias))

    def _norm(self, norm: nn.Module) -> Norm:
        expect(norm, nn.Identity, nn.LayerNorm, RMSNorm)
        if isinstance(norm, nn.Identity):
            return Norm(NORMS["none"])
        assert isinstance(norm, (nn.LayerNorm, RMSNorm))
        if norm.weight is None or norm.weight.shape != (self.dim,):
            raise NotPlain(f"{type(norm).__name__} without a gain for each of {self.dim} features")
        if isinstance(norm, RMSNorm):
            return Norm(NORMS["rms"], self._keep(norm.weight), None, norm.eps)
        return Norm(NORMS["layer"], self._keep(norm.weight), self._keep(norm.bias), norm.eps)

    def _head(self, head: Head) -> Matrix:
        """Scores by one matrix; without weight where the head has more to do."""
        if hooked(head) or type(head) not in (LinearHead, TiedHead):
            return Matrix()
        assert isinstance(head, (LinearHead, TiedHead))
        if isinstance(head, TiedHead) and (head.project or type(head.embedding).leave is not Embedding.leave):
            return Matrix()
        return self._matrix(head.matrix, head.bias_V)

    def _keep(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        self.tensors.append(expect_floats(tensor).detach().contiguous())
        return address(self.tensors[-1])


FLOATS: dict[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}
"""What step.c computes with, whatever the defaults of torch are."""


def expect(module: nn.Module, *kinds: type) -> Any:
    """The module, if it is of one of these very classes and nothing hangs on its calls."""
    if type(module) not in kinds or hooked(module):
        raise NotPlain(type(module).__name__)
    return module


def expect_floats(tensor: Tensor) -> Tensor:
    """The tensor, if it is an array of floats in memory."""
    plain = type(tensor) in (Tensor, nn.Parameter) and tensor.layout == torch.strided
    if not plain or any(getattr(tensor, name) != value for name, value in FLOATS.items()):
        raise NotPlain(f"a tensor of {tensor.dtype} on {tensor.device}")
    return tensor
