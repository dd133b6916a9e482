"""Planner: translates a Feedback stack's sublayers to the plan and the weights that `unrolled/` runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sublayer.nn.attention.cross import Cross
from sublayer.nn.attention.recall import Recall
from sublayer.nn.feedforward import Glu
from sublayer.nn.limits import most
from sublayer.nn.position import RelativeKey
from sublayer.nn.residual import PreNorm
from sublayer.nn.scene import Scene
from sublayer.nn.stack import unrolled

if TYPE_CHECKING:
    from sublayer.nn.stack.feedback import Feedback


class Planner:
    """Collects the weights in the form the loop multiplies with; the plan refers to them by index."""

    def __init__(
        self, stack: Feedback, sublayers: Sequence[nn.Module | None], scene: Scene, others: Sequence[Any]
    ) -> None:
        self.stack, self.scene, self.others = stack, scene, others
        self.drawn = [(n, one) for n, one in enumerate(sublayers) if one is not None]
        self.weights: list[Tensor] = []
        self.sources: list[tuple[int, int]] = []

    def add(self, weight: Tensor | None) -> int | None:
        return None if weight is None else self._index(weight)

    def plan(self, memory: int) -> unrolled.Plan:
        stack, config, tokens = self.stack, self.stack.config, memory + self.scene.length
        first = stack.readers(0)[0]
        done = [sum(n <= last for n, _ in self.drawn) for last in stack.lasts]
        table = first.position.shared.key_RK if isinstance(first.position, RelativeKey) else None
        far = most(stack.sees(keys, self.scene) for keys in range(len(config.streams)))
        project, bias, entry = self._projections()
        return unrolled.Plan(
            [self._sublayer(n, one, tokens) for n, one in self.drawn],
            [0, *done],
            config.streams,
            first.heads,
            first.groups,
            entry,
            self._index(self._composed()),
            self._index(project),
            self.add(bias),
            None if table is None else self._index(_distances(table, tokens if far is None else min(tokens, far))),
            self.sources,
            self.add(self._source_mask(project.dtype)),
        )

    def _source_mask(self, dtype: torch.dtype) -> Tensor | None:
        valid_BS = self.scene.source_valid_BS
        if valid_BS is None or not self.sources:
            return None
        return torch.zeros_like(valid_BS, dtype=dtype).masked_fill_(~valid_BS, -torch.inf)

    def _index(self, weight: Tensor) -> int:
        self.weights.append(weight)
        return len(self.weights) - 1

    def _composed(self) -> Tensor:
        """Each stream's weights of the layers, padded with zeros to the number of layers."""
        layers = self.stack.config.layers + 1
        streams = [nn.functional.pad(one, (0, layers - len(one))) for one in self.stack.compose.weights()]
        return torch.stack(streams)

    def _projections(self) -> tuple[Tensor, Tensor | None, unrolled.NormSpec | None]:
        """Projections to keys and values, (sets, D, Z), with gain and shift of the norm before them folded in."""
        stack, made = self.stack, []
        for n in range(len(stack.config.streams)):
            norm, matrix = stack.projection(n)
            made.append(_folded(norm, matrix))
        norm = stack.projection(0)[0]
        entry = unrolled.NormSpec(norm.eps) if isinstance(norm, nn.LayerNorm) else None
        biases = [bias for _, bias in made if bias is not None]
        return torch.stack([weight for weight, _ in made]), torch.stack(biases) if biases else None, entry

    def _sublayer(self, n: int, sublayer: Any, tokens: int) -> unrolled.SublayerSpec:
        part, norm = sublayer.part, sublayer.norm
        before = unrolled.NormSpec(norm.eps) if isinstance(sublayer, PreNorm) else None
        after = None if before else unrolled.NormSpec(norm.eps, self.add(norm.weight), self.add(norm.bias))
        attends = isinstance(part, (Recall, Cross))
        enter, leave = (part.query, part.output) if attends else (part.enter, part.output)
        weight, bias = _folded(norm if before else None, enter)
        if attends:
            # 1/√K in the query matrix: no product of its own for the scores of each token.
            scale = part.head_dim**-0.5
            weight, bias = weight * scale, None if bias is None else bias * scale
        drop = (part.config.dropout if part.training else 0.0) if attends else _rate(part.drop)
        drop_out = _rate(sublayer.drop)
        matrices = self._index(weight), self.add(bias), *self._leaving(leave, drop, drop_out)
        made = unrolled.SublayerSpec(*matrices, before, after, drop=drop, drop_out=drop_out)
        if not attends:
            return replace(made, activation=part.activation, gated=isinstance(part, Glu))
        if isinstance(part, Cross):
            k, v = (self._index(one.value.contiguous()) for one in (self.others[n].k, self.others[n].v))
            self.sources.append((k, v))
            return replace(made, keys=len(self.stack.config.streams) + len(self.sources) - 1)
        keys, sees = self.stack.config.reads[n], part.sees(self.scene)
        fade = self.add(_faded(part, self.scene, tokens if sees is None else min(tokens, sees), weight))
        return replace(made, keys=keys, sees=sees, fade=fade)

    def _leaving(self, leave: nn.Linear, drop: float, drop_out: float) -> tuple[int, int | None]:
        """The second matrix and its bias, times 1/(1 − p) of the dropouts around it: masks are then 0 or 1."""
        after = unrolled.scale(drop_out)
        whole, bias = unrolled.scale(drop) * after, leave.bias
        weight = leave.weight.T if whole == 1 else leave.weight.T * whole
        return self._index(weight), self.add(bias if bias is None or after == 1 else bias * after)


def _rate(drop: nn.Module) -> float:
    """The rate of a dropout; 0 outside training."""
    return drop.p if isinstance(drop, nn.Dropout) and drop.training else 0.0


def _folded(norm: nn.Module | None, matrix: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """W and b of W norm(x) + b as they act on (x − mean)/deviation; W as (in, out).

    W (g·x̂ + s) + b = (W·g) x̂ + (W s + b). Folded once per pass, gain and shift cost nothing per token, and autograd
    takes their gradients from the folded matrix."""
    if not isinstance(norm, nn.LayerNorm):
        return matrix.weight.T, matrix.bias
    bias = matrix.bias
    if norm.bias is not None:
        shift = matrix.weight @ norm.bias
        bias = shift if bias is None else bias + shift
    return (matrix.weight * norm.weight).T, bias


def _distances(table_RK: Tensor, distances: int) -> Tensor:
    """Rows for distance 1, 2, …; all beyond the table's end share its last row."""
    return table_RK[torch.arange(1, distances + 1, device=table_RK.device).clamp(max=len(table_RK) - 1)]


def _faded(part: Recall, scene: Scene, distances: int, like: Tensor) -> Tensor | None:
    """(H, distances): what a span adds to scores at distance 1, 2, …"""
    if part.span is None:
        return None
    apart_11R = torch.arange(1, distances + 1, device=like.device)[None, None]
    return part.span.fade(apart_11R, scene, like.dtype)[0, :, 0]
