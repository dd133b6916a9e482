"""A model as step.c takes it, where it is plain enough; or what in it is not."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sublayer.generation.native.feedback import FeedbackMemory
from sublayer.generation.native.form import Cache, Matrix, Sublayer
from sublayer.generation.native.tensors import FLOATS, NotPlain, Tensors, expect
from sublayer.native.pointwise import ACTIVATIONS
from sublayer.nn.attention import Causal, MultiHead, Window
from sublayer.nn.attention.recall import Recall
from sublayer.nn.embedding import Embedding, Head, LinearHead, TiedHead
from sublayer.nn.feedforward import Dense, Glu, activation
from sublayer.nn.hooked import hooked
from sublayer.nn.model import Decoder
from sublayer.nn.position import Alibi, NoPosition, Position, RelativeKey, RelativeXL, Rotary
from sublayer.nn.position.alibi import slopes
from sublayer.nn.residual import PostNorm, PreNorm, Sum
from sublayer.nn.stack import Feedback, Plain


class Description:
    """The stack of a decoder, plain or Feedback, by address; it holds the tensors behind that."""

    def __init__(self, model: nn.Module) -> None:
        decoder = expect(model, Decoder)
        stack = expect(decoder.stack, Plain, Feedback)
        self.dim: int = decoder.config.dim
        self.tensors = Tensors(self.dim)
        self.memory = FeedbackMemory(stack, self.tensors) if isinstance(stack, Feedback) else None
        self.caches: list[Cache] = self.memory.caches if self.memory else []
        self.kept = list(range(len(self.caches)))
        """For each cache, where a state keeps what it holds."""
        self.rotary: dict[int, Rotary] = {}
        """By cache; angles depend on how long texts get, so whoever knows that has to add them."""
        self.sublayers = [self._sublayer(n, sublayer) for n, sublayer in enumerate(stack.sublayers)]
        self.norm = self.tensors.norm(stack.final_norm)
        self.head = self._head(decoder.head)

    @property
    def work(self) -> int:
        """Multiplications of one token in all sublayers but for attention itself."""
        matrices = [m for sublayer in self.sublayers for m in (sublayer.enter, sublayer.leave)]
        return sum(m.out * m.in_ for m in [*matrices, *(cache.made for cache in self.caches)])

    def reach(self, cache: int) -> int | None:
        """How many earlier places the farthest-looking reader of a cache sees; None for all."""
        seen = [sublayer.reach for sublayer in self.sublayers if sublayer.attends and sublayer.cache == cache]
        return None if -1 in seen else max(seen)

    def _sublayer(self, n: int, residual: nn.Module) -> Sublayer:
        sublayer = expect(residual, PreNorm, PostNorm)
        expect(sublayer.add, Sum)
        expect(sublayer.drop, nn.Identity, nn.Dropout)
        part = expect(sublayer.part, MultiHead, Recall, Dense, Glu)
        fields = self._attention(n, part) if isinstance(part, (MultiHead, Recall)) else self._feedforward(part)
        ends = self.memory.ends.get(n, 0) if self.memory else 0
        norm = self.tensors.norm(sublayer.norm)
        return Sublayer(after=isinstance(sublayer, PostNorm), ends=ends, norm=norm, **fields)

    def _attention(self, n: int, part: MultiHead | Recall) -> dict[str, Any]:
        pattern, reach = part.config.pattern, part.config.reach
        if type(pattern) not in (Causal.Config, Window.Config):
            raise NotPlain(f"pattern {pattern.tag}")
        if part.span is not None:
            raise NotPlain(f"span {part.config.span.tag}")
        position = expect(part.position, Position, NoPosition, Rotary, Alibi, RelativeXL, RelativeKey)
        cache = self.memory.reads[n] if self.memory else self._own_cache(n, part)
        if isinstance(position, Rotary):
            self.rotary[cache] = position
        return {
            "attends": 1,
            "enter": self.tensors.linear(part.query if isinstance(part, Recall) else part.qkv),
            "leave": self.tensors.linear(part.output),
            "heads": part.heads,
            "cache": cache,
            "reach": -1 if reach is None else reach,
            **self._position(position, reach),
        }

    def _own_cache(self, n: int, part: MultiHead | Recall) -> int:
        self.caches.append(Cache(groups=part.groups, size=part.head_dim))
        self.kept.append(n)
        return len(self.caches) - 1

    def _position(self, position: Position, reach: int | None) -> dict[str, Any]:
        if isinstance(position, Alibi):
            return {"slope": self.tensors.keep(torch.tensor(slopes(position.heads, position.base), **FLOATS))}
        if isinstance(position, RelativeKey):
            far_RK = position.shared.key_RK[: None if reach is None else reach + 1].flip(0)
            return {"far": self.tensors.keep(far_RK), "reaches": len(far_RK)}
        if not isinstance(position, RelativeXL):
            return {}
        if reach is None:
            raise NotPlain("relative_xl on a memory without end")
        far_HRK = position.table(reach + 1).transpose(1, 2)
        return {
            "content": self.tensors.keep(position.terms.u_D),
            "distance": self.tensors.keep(position.terms.v_D),
            "far": self.tensors.keep(far_HRK),
            "reaches": reach + 1,
            "apart": reach + 1,
        }

    def _feedforward(self, part: Dense | Glu) -> dict[str, Any]:
        expect(part.drop, nn.Identity, nn.Dropout)
        act = activation.ACTIVATIONS[part.activation] if isinstance(part, Dense) else part.act
        name = next((name for name, function in activation.ACTIVATIONS.items() if function is act), "of your own")
        if name not in ACTIVATIONS:
            raise NotPlain(f"activation {name}")
        return {
            "enter": self.tensors.linear(part.enter),
            "leave": self.tensors.linear(part.output),
            "gated": isinstance(part, Glu),
            "activation": ACTIVATIONS[name],
        }

    def _head(self, head: Head) -> Matrix:
        """Scores by one matrix; without weight where the head has more to do."""
        if hooked(head) or type(head) not in (LinearHead, TiedHead):
            return Matrix()
        assert isinstance(head, (LinearHead, TiedHead))
        if isinstance(head, TiedHead) and (head.project or type(head.embedding).leave is not Embedding.leave):
            return Matrix()
        return self.tensors.matrix(head.matrix, head.bias_V)
