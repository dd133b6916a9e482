"""One token a row in one call: what a decoder remembers, moved on by step.c."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.generation.native import form
from sublayer.generation.native.plain import Description
from sublayer.generation.native.tensors import FLOATS, NotPlain, expect_floats
from sublayer.native import load
from sublayer.native.threads import worthwhile
from sublayer.nn.memory import KeyValues
from sublayer.nn.model import Model
from sublayer.nn.position import Rotary
from sublayer.nn.scene import Scene
from sublayer.nn.state import State

SOURCE = Path(__file__).with_name("step.c")
LANES = 8
"""As in vector.h: vectors that are laid out anew fill whole lanes."""


class NativeStep:
    """Keys and values are copied once, when it takes over from a state, into buffers that grow by doubling."""

    def __init__(self, model: Model, state: State, rows: int) -> None:
        """From the state after prompts that are padded on the left, if at all. Raises NotPlain."""
        if torch.is_autocast_enabled("cpu"):
            raise NotPlain("autocast")
        self._held = Description(model)
        library = load(SOURCE, "generation")
        if library is None:
            raise NotPlain("a machine without a compiler")
        self._run = library.sublayer_step
        self._step, self._caches = self._described(state.start)
        even_B = torch.zeros(rows, dtype=torch.long, device="cpu")
        self._first_B = even_B if state.past_valid is None else (~state.past_valid.value).sum(1)
        self._turns: dict[Hashable, Tensor] = {}
        self._turned = 0
        self._keys: dict[int, Tensor] = {}
        """Keys and values by cache, (2, B, G, C, K)."""
        for n, part in enumerate(self._held.kept):
            self._take_over(n, state.parts[part])
        self._settle()

    def _described(self, place: int) -> tuple[form.Step, ctypes.Array[form.Cache]]:
        held, memory = self._held, self._held.memory
        caches = (form.Cache * len(held.caches))(*held.caches)
        step = form.Step(
            dim=held.dim,
            sublayers=len(held.sublayers),
            caches=len(caches),
            place=place,
            sublayer=(form.Sublayer * len(held.sublayers))(*held.sublayers),
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
    def place(self) -> int:
        return self._step.place

    def positions(self) -> Int[Tensor, "B 1"] | None:
        """The next position of each row, where they differ."""
        return (self.place - self._first_B)[:, None] if self._ragged else None

    def __call__(self, x_BD: Float[Tensor, "B D"]) -> Float[Tensor, "B N"]:
        """Through all sublayers, the final norm and the head."""
        full = [n for n, cache in enumerate(self._caches) if cache.held == cache.capacity]
        for n in full:
            self._grow(n)
        if full:
            self._settle()
        if self._held.rotary and self.place >= self._turned:
            self._turn(2 * self.place)
        self._x_BD.copy_(x_BD)
        out_BN = torch.empty(self._out, **FLOATS)
        self._step.out = out_BN.data_ptr()
        self._run(ctypes.byref(self._step))
        return out_BN

    def select(self, rows_B: Int[Tensor, " B"]) -> None:
        """Rows in any order and number."""
        self._first_B = self._first_B[rows_B]
        for n, keys in self._keys.items():
            self._keep(n, keys.index_select(1, rows_B))
        self._settle()

    def _take_over(self, n: int, memory: object) -> None:
        if not isinstance(memory, KeyValues):
            raise NotPlain(type(memory).__name__)
        self._move(n, expect_floats(memory.k.value), expect_floats(memory.v.value))

    def _grow(self, n: int) -> None:
        key, value = self._keys[n][:, :, :, : self._caches[n].held]
        self._move(n, key, value)

    def _move(self, n: int, k_BGMK: Tensor, v_BGMK: Tensor) -> None:
        """To a buffer with twice the room; what is out of every reader's reach stays behind."""
        cache, (B, G, M, K) = self._caches[n], k_BGMK.shape
        reach = self._held.reach(n)
        cache.held = M if reach is None else min(M, reach)
        keys = torch.empty(2, B, G, max(16, 2 * cache.held), K, **FLOATS)
        keys[0, :, :, : cache.held] = k_BGMK[:, :, M - cache.held :]
        keys[1, :, :, : cache.held] = v_BGMK[:, :, M - cache.held :]
        self._keep(n, keys)

    def _keep(self, n: int, keys: Tensor) -> None:
        self._keys[n], cache = keys, self._caches[n]
        cache.key, cache.value, cache.capacity = keys[0].data_ptr(), keys[1].data_ptr(), keys.shape[3]

    def _turn(self, places: int) -> None:
        """Angles for so many places, one table for all layers that turn alike."""
        self._turned = max(64, places)
        self._turns = {}
        for n, position in self._held.rotary.items():
            kind = position.kind
            if kind not in self._turns:
                self._turns[kind] = angles(position, self._turned)
            self._caches[n].turn = self._turns[kind].data_ptr()

    def _settle(self) -> None:
        """Room for as many rows, places and threads as there are now."""
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


def angles(position: Rotary, places: int) -> Float[Tensor, "M K"]:
    """cos, then sin of each plane's angle at every place: where the position takes (1, 0)."""
    one_11MK = torch.zeros(1, 1, places, position.head_dim, **FLOATS)
    one_11MK[..., : position.head_dim // 2] = 1
    return position.query(one_11MK, Scene(torch.arange(places, device="cpu")[None]))[0, 0].contiguous()
