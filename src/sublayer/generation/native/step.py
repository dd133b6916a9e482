"""One token a row in one call: step.c appends to the keys and values of a decoder, and computes the scores."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.generation.native import form
from sublayer.generation.native.description import Description
from sublayer.generation.native.source import SOURCE
from sublayer.generation.native.tensors import FLOATS
from sublayer.native import load
from sublayer.native.threads import worthwhile
from sublayer.nn.model import Model
from sublayer.nn.position import Rotary
from sublayer.nn.scene import Scene
from sublayer.nn.state import State

LANES = 8
"""As in vector.h: vectors that are laid out anew fill whole lanes."""


class NativeStep:
    """Keys and values are copied once, when it takes over from a state, into buffers that grow by doubling: so the
    copies of a whole text cost no more than a constant per token."""

    def __init__(self, model: Model, state: State, rows: int) -> None:
        """From the state after prompts that are padded on the left, if at all; for models that `served.py` admits."""
        self._held = Description(model)
        library = load(SOURCE, "generation")
        assert library is not None
        self._run = library.sublayer_step
        self._step, self._caches = self._described(state.start)
        even_B = torch.zeros(rows, dtype=torch.long, device="cpu")
        self._first_B = even_B if state.past_valid is None else (~state.past_valid.value).sum(1)
        self._angles: dict[Hashable, Tensor] = {}
        self._angle_count = 0
        self._keys: dict[int, Tensor] = {}
        """Keys and values by cache, (2, B, G, C, K)."""
        for n, index in enumerate(self._held.stored):
            self._move(n, state.parts[index].k.value, state.parts[index].v.value)
        self._allocate()

    def _described(self, start: int) -> tuple[form.Step, ctypes.Array[form.CacheStruct]]:
        held, memory = self._held, self._held.memory
        caches = (form.CacheStruct * len(held.caches))(*held.caches)
        step = form.Step(
            dim=held.dim,
            sublayers=len(held.sublayers),
            caches=len(caches),
            start=start,
            sublayer=(form.StepSublayer * len(held.sublayers))(*held.sublayers),
            cache=caches,
            norm=held.norm,
            head=held.head,
        )
        if memory:
            step.streams, step.layers, step.compose = memory.streams, memory.layers, memory.compose
        return step, caches

    @property
    def scores(self) -> bool:
        """Whether it gives scores; hidden vectors, where the head is more than a matrix."""
        return bool(self._step.head.weight)

    @property
    def start(self) -> int:
        """How many tokens were read, padding included."""
        return self._step.start

    def positions(self) -> Int[Tensor, "B 1"] | None:
        """The next position of each row, where they differ."""
        return (self.start - self._first_B)[:, None] if self._ragged else None

    def __call__(self, x_BD: Float[Tensor, "B D"]) -> Float[Tensor, "B N"]:
        """Through all sublayers, the final norm and the head."""
        full = [n for n, cache in enumerate(self._caches) if cache.held == cache.capacity]
        for n in full:
            self._grow(n)
        if full:
            self._allocate()
        if self._held.rotary and self.start >= self._angle_count:
            self._extend_angles(2 * self.start)
        self._x_BD.copy_(x_BD)
        out_BN = torch.empty(self._out, **FLOATS)
        self._step.out = out_BN.data_ptr()
        self._run(ctypes.byref(self._step))
        return out_BN

    def select(self, rows_B: Int[Tensor, " B"]) -> None:
        """Rows in any order and number."""
        self._first_B = self._first_B[rows_B]
        for n, keys in self._keys.items():
            self._hold(n, keys.index_select(1, rows_B))
        self._allocate()

    def _grow(self, n: int) -> None:
        key, value = self._keys[n][:, :, :, : self._caches[n].held]
        self._move(n, key, value)

    def _move(self, n: int, k_BGMK: Tensor, v_BGMK: Tensor) -> None:
        """To a buffer with twice the room; tokens beyond every reader's reach are not copied."""
        cache, (B, G, M, K) = self._caches[n], k_BGMK.shape
        reach = self._held.reach(n)
        cache.held = M if reach is None else min(M, reach)
        keys = torch.empty(2, B, G, max(16, 2 * cache.held), K, **FLOATS)
        keys[0, :, :, : cache.held] = k_BGMK[:, :, M - cache.held :]
        keys[1, :, :, : cache.held] = v_BGMK[:, :, M - cache.held :]
        self._hold(n, keys)

    def _hold(self, n: int, keys: Tensor) -> None:
        self._keys[n], cache = keys, self._caches[n]
        cache.key, cache.value, cache.capacity = keys[0].data_ptr(), keys[1].data_ptr(), keys.shape[3]

    def _extend_angles(self, positions: int) -> None:
        """Tables of Rotary's angles for so many positions, one for all layers that rotate alike."""
        self._angle_count = max(64, positions)
        self._angles = {}
        for n, position in self._held.rotary.items():
            kind = position.kind
            if kind not in self._angles:
                self._angles[kind] = angles(position, self._angle_count)
            self._caches[n].rotation = self._angles[kind].data_ptr()

    def _allocate(self) -> None:
        """Scratch memory for as many rows, tokens and threads as there are now."""
        step, B, D = self._step, len(self._first_B), self._step.dim
        made = sum(cache.made.out for cache in self._caches)
        wide = max(made, *(sublayer.enter.out for sublayer in self._held.sublayers))
        joined = max(sublayer.leave.in_ for sublayer in self._held.sublayers)
        scores = max((cache.capacity + cache.size for cache in self._caches), default=0)
        step.columns = max(D, joined) * -(-B // LANES) * LANES
        threads = worthwhile(B * self._held.work, len(self._held.sublayers))
        step.rows, step.threads, step.private = B, threads, B * D + step.columns + scores
        self._out = B, (step.head.out if self.scores else D)
        self._ragged = bool(self._first_B.any())
        self._x_BD = torch.empty(B, D, **FLOATS)
        shared = B * (wide + joined + step.streams * D)
        self._room = torch.empty(shared + step.threads * step.private, **FLOATS)
        step.stream, step.first, step.wide = (x.data_ptr() for x in (self._x_BD, self._first_B, self._room))
        step.joined = step.wide + 4 * B * wide
        step.memory = step.joined + 4 * B * joined
        step.room = step.wide + 4 * shared


def angles(position: Rotary, positions: int) -> Float[Tensor, "M K"]:
    """cos, then sin of each plane's angle at every position: what Rotary makes of the vector (1, 0)."""
    one_11MK = torch.zeros(1, 1, positions, position.head_dim, **FLOATS)
    one_11MK[..., : position.head_dim // 2] = 1
    return position.query(one_11MK, Scene(torch.arange(positions, device="cpu")[None]))[0, 0].contiguous()
