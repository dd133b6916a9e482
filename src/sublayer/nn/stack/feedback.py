"""The Feedback stack: it owns the loop over tokens. All layers read one memory of what all layers put out before."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor, nn

from sublayer.nn import layout as layouts
from sublayer.nn import paths
from sublayer.nn.attention import MultiHead
from sublayer.nn.attention.heads import split_heads
from sublayer.nn.attention.recall import Recall, key_value_params, recall_flops, recall_params
from sublayer.nn.limits import least, most
from sublayer.nn.linear import linear
from sublayer.nn.memory import Hidden, KeyValues
from sublayer.nn.part import Work
from sublayer.nn.residual import Residual
from sublayer.nn.scene import Scene
from sublayer.nn.shared import SharedModules
from sublayer.nn.stack.base import Stack, init_weights
from sublayer.nn.stack.compose import Compose, Weighted
from sublayer.nn.state import Growing


class Feedback(Stack):
    """z_t^l = Attn(x_t^l, m_1 … m_{t−1}), m_t = Σ_l softmax(w)_l x_t^l (Fan et al. 2020, section 3.3).

    A layer is a repeat of the layout, x^0 the embedding. Every attention of the alphabet reads the memory: its queries
    and output are its own, keys and values those of the memory. The first token sees nothing.

    `s.memory` says what is stored: `segment` stores memory vectors, so that the projection learns from them, and
    `frozen()` turns them into keys and values; `cache` stores keys and values, once for all layers.

    Deviation from the authors' code: the norm between memory and shared projection is one of its own; there it is the
    norm before all attentions, which is one as well.
    """

    class Config(Stack.Config, tag="feedback"):
        compose: Compose.Config = Weighted.Config()
        """What the memory is made of."""
        shared: bool = True
        """Whether all attentions have one projection to keys and values, or each its own."""

        @property
        def layers(self) -> int:
            return len(layouts.repeats(self.layout))

        @cached_property
        def layer_of(self) -> tuple[int, ...]:
            """The layer of each sublayer, counted from 0."""
            return tuple(layer for layer, size in enumerate(layouts.repeats(self.layout)) for _ in range(size))

        @cached_property
        def attentions(self) -> dict[int, MultiHead.Config]:
            """The parts that read the memory, by the index of their sublayer."""
            return {n: part for n, part in self.numbered if part.recalls}  # pyright: ignore[reportReturnType]

        @cached_property
        def reads(self) -> dict[int, int]:
            """Which set of keys and values each attention reads."""
            if not self.shared:
                return {n: a for a, n in enumerate(self.attentions)}
            layers = sorted({self.layer_of[n] for n in self.attentions}) if self.compose.by_layer else [0]
            return {n: layers.index(self.layer_of[n] if self.compose.by_layer else 0) for n in self.attentions}

        @cached_property
        def streams(self) -> tuple[int, ...]:
            """For each set of keys and values, which memory vectors it is made of."""
            of = {self.reads[n]: self.layer_of[n] if self.compose.by_layer else 0 for n in self.attentions}
            return tuple(of[keys] for keys in sorted(of))

        def readers(self, keys: int) -> list[MultiHead.Config]:
            """The attentions that read a set of keys and values."""
            return [part for n, part in self.attentions.items() if self.reads[n] == keys]

        @model_validator(mode="after")
        def _feeds_back(self) -> Feedback.Config:
            self.compose.check(self.layers)
            if not self.attentions:
                raise ValueError(
                    f"layout {self.layout!r} has no attention, so nothing reads the memory; use kind=plain"
                )
            for part in self.attentions.values():
                _check(part, self)
            return self

        def params(self, dim: int) -> int:
            slot, first = self.slot(dim), next(iter(self.attentions.values()))
            own = self.shared_params(dim) + self.compose.params(self.layers)
            if self.shared:
                own += key_value_params(first, dim) + self.residual.entry().params(dim)
            for n, part in enumerate(self.parts):
                attention = self.attentions.get(n)
                own += recall_params(attention, slot, own=not self.shared) if attention else part.params(slot)
            return own + len(self.parts) * self.residual.params(dim)

        @cached_property
        def stores(self) -> tuple[int | None, ...]:
            """For each set of keys and values, how many tokens a later segment may read; None for all."""
            return tuple(most(part.reach for part in self.readers(keys)) for keys in range(len(self.streams)))

        @cached_property
        def holds(self) -> tuple[int | None, ...]:
            """For each set, how far back any reader may look within a segment, whatever spans it learns."""
            return tuple(most(part.sees for part in self.readers(keys)) for keys in range(len(self.streams)))

        @property
        def bounded(self) -> bool:
            others = (part.bounded for n, part in self.numbered if n not in self.attentions)
            return None not in self.stores and all(others)

        def state_size(self, dim: int, work: Work) -> int:
            others = sum(
                part.state_size(self.slot(dim, index=n), work) for n, part in self.numbered if n not in self.attentions
            )
            return others + sum(self._stored(keys, dim, work) for keys in range(len(self.streams)))

        def _stored(self, keys: int, dim: int, work: Work) -> int:
            """Numbers stored of one set, per row: memory vectors, of which a segment goes whole into the state; or keys
            and values, of which no more stay than are read."""
            readers = self.readers(keys)
            if readers[0].memory.reach == 0:
                return 0
            if readers[0].memory.hidden and not work.frozen:
                before = least(work.memory, self.stores[keys]) or 0
                return dim * (before + work.length)
            _, groups, head_dim = readers[0].sizes(dim)
            return 2 * groups * head_dim * (least(work.memory + work.length, self.stores[keys]) or 0)

        def activation_size(self, dim: int, work: Work, rows: int = 1) -> int:
            """The stream beside the states that a pass leaves."""
            return rows * (work.length * dim + self.state_size(dim, work))

        def flops(self, dim: int, work: Work) -> int:
            slot, total = self.slot(dim), 0
            for keys in range(len(self.streams)):
                readers = self.readers(keys)
                again = least(work.memory, most(least(part.reach, part.span.begins) for part in readers)) or 0
                projected = work.length + (again if readers[0].memory.hidden and not work.frozen else 0)
                total += 2 * projected * key_value_params(readers[0].but(bias=False), dim)
            for n, part in enumerate(self.parts):
                attention = self.attentions.get(n)
                total += recall_flops(attention, slot, work) if attention else part.flops(slot, work)
            return total + len(self.parts) * self.residual.flops(dim, work.length)

    steps = True

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.config = config
        self.position = config.position.build(dim, config.head_dim(dim))
        self.shared = SharedModules()
        self.sublayers = nn.ModuleList(self._sublayer(n, dim) for n in range(len(config.parts)))
        self.compose = config.compose.build(config.layers)
        if config.shared:
            first = next(iter(config.attentions.values()))
            _, groups, head_dim = first.sizes(dim)
            self.norm = config.residual.entry().build(dim)
            self.key_value = linear(dim, 2 * groups * head_dim, first.bias)
        self.final_norm = config.final_norm.build(dim)
        self.lasts = [sum(layouts.repeats(config.layout)[: layer + 1]) - 1 for layer in range(config.layers)]
        """The last sublayer of each layer."""
        init_weights(self, config, len(self.sublayers))

    def _sublayer(self, n: int, dim: int) -> Residual:
        slot = self.config.slot(dim, self.position, n, self.shared)
        attention = self.config.attentions.get(n)
        part = Recall(attention, slot, own=not self.config.shared) if attention else self.config.parts[n].build(slot)
        return self.config.residual.build(part, slot)

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, states: tuple[Any, ...] | None = None
    ) -> tuple[Float[Tensor, "B L D"], tuple[Any, ...]]:
        sets = len(self.config.streams)
        memories = list(states[:sets]) if states else [None] * sets
        others = list(states[sets:]) if states else [None] * len(self.sublayers)
        keys = [self._recalled(n, memory, scene) for n, memory in enumerate(memories)]
        sublayers = [sublayer.drawn() for sublayer in self.sublayers]  # pyright: ignore[reportCallIssue]
        if (fast := paths.find("stack", self, sublayers, x_BLD, scene)) is not None:
            x_BLD, keys, vectors, others = fast.run(self, sublayers, x_BLD, scene, keys, others)
        else:
            x_BLD, keys, vectors = self.loop(sublayers, x_BLD, scene, keys, others)
        for recall in (recall for n in range(sets) for recall in self.readers(n)):
            if recall.span is not None:
                recall.span.add_loss(scene)
        stored = [self._stored(n, memory, keys[n], vectors[n]) for n, memory in enumerate(memories)]
        return self.final_norm(x_BLD), (*stored, *others)

    def loop(
        self,
        sublayers: list[nn.Module | None],
        x_BLD: Tensor,
        scene: Scene,
        keys: list[KeyValues | None],
        others: list[Any],
    ) -> tuple[Tensor, list[KeyValues | None], list[Tensor]]:
        """Token after token: the stream, the keys and values after it, and the memory vectors of each set.

        The slow twin of every path of the job "stack"."""
        outputs, vectors = [], []
        for t in range(scene.length):
            here, x_B1D = scene.cut(t, 1), x_BLD[:, t : t + 1]
            layers = [x_B1D]
            for n, sublayer in enumerate(sublayers):
                if n in self.config.reads:
                    x_B1D = x_B1D if sublayer is None else sublayer(x_B1D, here, keys[self.config.reads[n]])[0]
                elif sublayer is None:
                    others[n] = self.sublayers[n].skip(x_B1D, here, others[n])  # pyright: ignore[reportCallIssue]
                else:
                    x_B1D, others[n] = sublayer(x_B1D, here, others[n])
                if n in self.lasts:
                    layers.append(x_B1D)
            composed = self.compose(layers)
            vectors.append([composed[stream] for stream in self.config.streams])
            keys = [self._remember(n, m_B1D, here, keys[n]) for n, m_B1D in enumerate(vectors[-1])]
            outputs.append(x_B1D)
        return torch.cat(outputs, dim=1), keys, [torch.cat(one, dim=1) for one in zip(*vectors, strict=True)]

    def sees(self, n: int, scene: Scene) -> int | None:
        """How far back any reader of a set of keys and values looks now; None for all there is."""
        return scene.once_per_pass(("sees", self, n), lambda: most(recall.sees(scene) for recall in self.readers(n)))

    def readers(self, n: int) -> list[Recall]:
        """The attentions that read a set of keys and values."""
        return [self.sublayers[index].part for index, keys in self.config.reads.items() if keys == n]  # pyright: ignore[reportReturnType]

    def projection(self, n: int) -> tuple[nn.Module, nn.Linear]:
        """The norm and the matrix that make a set of keys and values of memory vectors."""
        if self.config.shared:
            return self.norm, self.key_value
        index = next(index for index, keys in self.config.reads.items() if keys == n)
        sublayer: Any = self.sublayers[index]
        return sublayer.entry, sublayer.part.key_value

    def project(self, n: int, m_BMD: Tensor, scene: Scene, memory: int) -> tuple[Tensor, Tensor]:
        """Memory vectors as keys and values: W norm(m), by head; the position acts on the keys."""
        reader, (norm, matrix) = self.readers(n)[0], self.projection(n)
        k_BGMK, v_BGMK = (split_heads(one, reader.groups) for one in matrix(norm(m_BMD)).chunk(2, dim=-1))
        return reader.position.key(k_BGMK, scene, memory), v_BGMK

    def _remember(self, n: int, m_B1D: Tensor, here: Scene, keys: KeyValues | None) -> KeyValues:
        """With one more token."""
        k_BG1K, v_BG1K = self.project(n, m_B1D, here, 0)
        if keys is None:
            return KeyValues(Growing.of(k_BG1K, 2), Growing.of(v_BG1K, 2))
        holds = self.config.holds[n]
        return KeyValues(keys.k.append(k_BG1K, holds), keys.v.append(v_BG1K, holds))

    def _recalled(self, n: int, memory: Any, scene: Scene) -> KeyValues | None:
        """Keys and values of what is stored, as far as it is read."""
        reads = most(least(recall.config.reach, recall.sees(scene)) for recall in self.readers(n))
        if memory is None or (reads is None and _vectors(memory) is None):
            return memory
        if (vectors := _vectors(memory)) is None:
            return KeyValues(memory.k.tail(reads), memory.v.tail(reads))
        m_BMD, past = vectors.last(reads), scene.cut(0, 0)
        k_BGMK, v_BGMK = self.project(n, m_BMD, past, m_BMD.shape[1])
        return KeyValues(Growing.of(k_BGMK, 2), Growing.of(v_BGMK, 2))

    def _within_reach(self, n: int, keys: KeyValues | None) -> KeyValues | None:
        reach = self.config.stores[n]
        return keys if keys is None or reach is None else KeyValues(keys.k.tail(reach), keys.v.tail(reach))

    def _stored(self, n: int, memory: Any, keys: KeyValues | None, m_BLD: Tensor) -> Hidden | KeyValues | None:
        """The state of a set after a segment. A frozen one goes on as keys and values."""
        readers = self.config.readers(n)
        if readers[0].memory.reach == 0:
            return None
        vectors = _vectors(memory)
        if not readers[0].memory.hidden or (memory is not None and vectors is None):
            return self._within_reach(n, keys)
        m_BLD, reach = m_BLD.detach(), self.config.stores[n]
        return Hidden(Growing.of(m_BLD, 1) if vectors is None else vectors.append(m_BLD, reach))

    def freeze(self, states: tuple[Any, ...], scene: Scene) -> tuple[Any, ...]:
        stored = list(states)
        for n, memory in enumerate(states[: len(self.config.streams)]):
            if _vectors(memory) is not None:
                stored[n] = self._recalled(n, memory, scene)
        return tuple(stored)


def _vectors(memory: Any) -> Growing | None:
    """The memory vectors in a state that this stack made; None if it holds their keys and values."""
    return memory.x if isinstance(memory, Hidden) else None


def _check(part: MultiHead.Config, stack: Feedback.Config) -> None:
    """What attentions of one memory must have in common, and what it cannot store."""
    first = next(iter(stack.attentions.values()))
    named = "shared=true: all attentions read the same keys"
    same = ("kv_heads", "head_dim", "bias", "memory") if stack.shared else ("memory",)
    for name in (*same, *(("heads",) if stack.shared and first.head_dim is None else ())):
        if getattr(part, name) != getattr(first, name):
            raise ValueError(
                f"{named}, but {name} differs between them ({getattr(first, name)} and {getattr(part, name)}); make it "
                "the same, or set shared=false"
            )
    several = not stack.shared or stack.compose.by_layer
    if several and not part.memory.hidden and part.memory.reach != 0:
        why = "shared=false" if not stack.shared else f"compose={stack.compose.tag}"
        raise ValueError(
            f"{why}: attentions have keys and values of their own, but memory={part.memory.tag} stores one set for "
            "all; use memory=segment, which stores memory vectors, or shared=true and one stream (compose=weighted)"
        )
    span, stored = part.pattern.reach, part.memory.reach
    if span is not None and stored and span > stored:
        raise ValueError(
            f"pattern.size={span + 1}: attention spans {span} tokens, but memory.length={stored} stores fewer; use a "
            f"size up to {stored + 1}, or a longer memory"
        )
