"""A model that the step in C serves (`served.py`), as step.c takes it: sizes and addresses."""

from __future__ import annotations

from typing import Any

import torch

from sublayer.generation.native.feedback import FeedbackMemory
from sublayer.generation.native.form import CacheStruct, StepMatrix, StepSublayer
from sublayer.generation.native.lists import Listed
from sublayer.generation.native.served import activation_of, is_matrix
from sublayer.generation.native.tensors import FLOATS, Tensors
from sublayer.native.pointwise import ACTIVATIONS
from sublayer.nn.attention import MultiHead, Pattern
from sublayer.nn.attention.recall import Recall
from sublayer.nn.feedforward import Dense, Glu
from sublayer.nn.limits import most
from sublayer.nn.position import Alibi, Position, RelativeKey, RelativeXL, Rotary
from sublayer.nn.position.alibi import slopes
from sublayer.nn.residual import PostNorm
from sublayer.nn.stack import Feedback


class Description:
    """The stack of a decoder, plain or Feedback, by address; it holds the tensors at those addresses."""

    def __init__(self, model: Any) -> None:
        stack = model.stack
        self.dim: int = model.config.dim
        self.tensors = Tensors()
        self.memory = FeedbackMemory(stack, self.tensors) if isinstance(stack, Feedback) else None
        self.caches: list[CacheStruct] = self.memory.caches if self.memory else []
        self.stored = list(range(len(self.caches)))
        """For each cache, the index in `State.parts` of its keys and values."""
        self.readers: dict[int, list[MultiHead.Config]] = {}
        """The attentions that read each cache."""
        self.listed: dict[Listed, list[int]] = {}
        """Sublayers whose attention does not see each of the last tokens, by what they see."""
        self.rotary: dict[int, Rotary] = {}
        """By cache. The tables of angles depend on how long texts get, so the step adds them."""
        self.sublayers = [self._sublayer(n, sublayer) for n, sublayer in enumerate(stack.sublayers)]
        self.norm = self.tensors.norm(stack.final_norm)
        # Without a weight where the head is more than a matrix: then the step gives hidden vectors.
        head = model.head
        self.head = self.tensors.matrix(head.matrix, head.bias_V) if is_matrix(head) else StepMatrix()

    @property
    def work(self) -> int:
        """Multiplications of one token in all sublayers but for attention itself."""
        matrices = [m for sublayer in self.sublayers for m in (sublayer.enter, sublayer.leave)]
        return sum(m.out * m.in_ for m in [*matrices, *(cache.made for cache in self.caches)])

    def recent(self, cache: int) -> int | None:
        """How many of the last tokens any reader of a cache sees, beside those that outlast them; None for all."""
        return most(one.recent for one in self.readers[cache])

    def outlasting(self, cache: int) -> Pattern.Config | None:
        """The pattern whose reader sees some tokens of a cache however late it comes."""
        return next((one.pattern for one in self.readers[cache] if one.outlasts), None)

    def _sublayer(self, n: int, sublayer: Any) -> StepSublayer:
        part = sublayer.part
        fields = self._attention(n, part) if isinstance(part, (MultiHead, Recall)) else self._feedforward(part)
        ends = self.memory.ends.get(n, 0) if self.memory else 0
        norm = self.tensors.norm(sublayer.norm)
        return StepSublayer(after=isinstance(sublayer, PostNorm), ends=ends, norm=norm, **fields)

    def _attention(self, n: int, part: MultiHead | Recall) -> dict[str, Any]:
        reach = part.config.reach
        cache = self.memory.reads[n] if self.memory else self._own_cache(n, part)
        self.readers.setdefault(cache, []).append(part.config)
        if isinstance(part.position, Rotary):
            self.rotary[cache] = part.position
        if not part.config.pattern.contiguous:
            seen = Listed(part.config.pattern, part.heads, reach, part.position.acts_on_scores)
            self.listed.setdefault(seen, []).append(n)
        return {
            "attends": 1,
            "enter": self.tensors.linear(part.query if isinstance(part, Recall) else part.qkv),
            "leave": self.tensors.linear(part.output),
            "heads": part.heads,
            "cache": cache,
            "reach": -1 if reach is None else reach,
            **self._position(part.position, reach),
        }

    def _own_cache(self, n: int, part: MultiHead | Recall) -> int:
        self.caches.append(CacheStruct(groups=part.groups, size=part.head_dim))
        self.stored.append(n)
        return len(self.caches) - 1

    def _position(self, position: Position, reach: int | None) -> dict[str, Any]:
        if isinstance(position, Alibi):
            return {"slope": self.tensors.hold(torch.tensor(slopes(position.heads, position.base), **FLOATS))}
        if isinstance(position, RelativeKey):
            far_RK = position.shared.key_RK[: None if reach is None else reach + 1].flip(0)
            return {"far": self.tensors.hold(far_RK), "reaches": len(far_RK)}
        if not isinstance(position, RelativeXL):
            return {}
        assert reach is not None
        far_HRK = position.table(reach + 1).transpose(1, 2)
        return {
            "content": self.tensors.hold(position.terms.u_D),
            "distance": self.tensors.hold(position.terms.v_D),
            "far": self.tensors.hold(far_HRK),
            "reaches": reach + 1,
            "apart": reach + 1,
        }

    def _feedforward(self, part: Dense | Glu) -> dict[str, Any]:
        return {
            "enter": self.tensors.linear(part.enter),
            "leave": self.tensors.linear(part.output),
            "gated": isinstance(part, Glu),
            "activation": ACTIVATIONS[activation_of(part)],
        }
