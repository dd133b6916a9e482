"""One token a row in one call: what a plain decoder remembers, moved on by step.c."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.generation.native import form
from sublayer.generation.native.plain import FLOATS, Description, NotPlain, expect_floats
from sublayer.native import load
from sublayer.nn.memory import KeyValues
from sublayer.nn.model import Model
from sublayer.nn.position import Rotary
from sublayer.nn.scene import Scene
from sublayer.nn.state import State

SOURCE = Path(__file__).with_name("step.c")
WORTH = 2**16
"""Multiplications a sublayer that make one more thread worth its waiting for the others."""
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
        self._sublayers = (form.Sublayer * len(self._held.sublayers))(*self._held.sublayers)
        self._step = form.Step(
            dim=self._held.dim,
            sublayers=len(self._sublayers),
            place=state.start,
            sublayer=self._sublayers,
            norm=self._held.norm,
            head=self._held.head,
        )
        even_B = torch.zeros(rows, dtype=torch.long, device="cpu")
        self._first_B = even_B if state.past_valid is None else (~state.past_valid.value).sum(1)
        self._turns: dict[tuple[float, int], Tensor] = {}
        self._turned = 0
        self.caches: dict[int, Tensor] = {}
        """Keys and values by sublayer, (2, B, G, C, K)."""
        for n, memory in enumerate(state.parts):
            if self._sublayers[n].attends:
                self._take_over(n, memory)
        self._settle()

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
        full = [n for n in self.caches if self._sublayers[n].held == self._sublayers[n].capacity]
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
        for n, cache in self.caches.items():
            self._keep(n, cache.index_select(1, rows_B))
        self._settle()

    def _take_over(self, n: int, memory: object) -> None:
        if not isinstance(memory, KeyValues):
            raise NotPlain(type(memory).__name__)
        self._move(n, expect_floats(memory.k.value), expect_floats(memory.v.value))

    def _grow(self, n: int) -> None:
        key, value = self.caches[n][:, :, :, : self._sublayers[n].held]
        self._move(n, key, value)

    def _move(self, n: int, k_BGMK: Tensor, v_BGMK: Tensor) -> None:
        """To a buffer with twice the room; what is out of a window's reach stays behind."""
        sublayer, (B, G, M, K) = self._sublayers[n], k_BGMK.shape
        sublayer.held = M if sublayer.reach < 0 else min(M, sublayer.reach)
        cache = torch.empty(2, B, G, max(16, 2 * sublayer.held), K, **FLOATS)
        cache[0, :, :, : sublayer.held] = k_BGMK[:, :, M - sublayer.held :]
        cache[1, :, :, : sublayer.held] = v_BGMK[:, :, M - sublayer.held :]
        self._keep(n, cache)

    def _keep(self, n: int, cache: Tensor) -> None:
        self.caches[n], sublayer = cache, self._sublayers[n]
        sublayer.key, sublayer.value, sublayer.capacity = cache[0].data_ptr(), cache[1].data_ptr(), cache.shape[3]

    def _turn(self, places: int) -> None:
        """Angles for so many places, one table for all layers that turn alike."""
        self._turned = max(64, places)
        self._turns = {}
        for n, position in self._held.rotary.items():
            kind = position.base, position.head_dim
            if kind not in self._turns:
                self._turns[kind] = angles(position, self._turned)
            self._sublayers[n].turn = self._turns[kind].data_ptr()

    def _settle(self) -> None:
        """Room for as many rows, places and threads as there are now."""
        step, B, D = self._step, len(self._first_B), self._step.dim
        wide = max(sublayer.enter.out for sublayer in self._sublayers)
        joined = max(sublayer.leave.in_ for sublayer in self._sublayers)
        scores = max(sublayer.capacity + sublayer.size for sublayer in self._sublayers)
        step.columns = max(D, joined) * -(-B // LANES) * LANES
        step.rows, step.threads, step.private = B, self._threads(B), B * D + step.columns + scores
        self._out = B, (step.head.out if self.scores else D)
        self._ragged = bool(self._first_B.any())
        self._x_BD = torch.empty(B, D, **FLOATS)
        self._room = torch.empty(B * (wide + joined) + step.threads * step.private, **FLOATS)
        step.stream, step.first, step.wide = (x.data_ptr() for x in (self._x_BD, self._first_B, self._room))
        step.joined = step.wide + 4 * B * wide
        step.room = step.joined + 4 * B * joined

    def _threads(self, rows: int) -> int:
        """As many as torch has, processors serve and the work is worth."""
        worth = rows * self._held.weights // (len(self._sublayers) * WORTH)
        return max(1, min(torch.get_num_threads(), _processors(), worth))


def angles(position: Rotary, places: int) -> Float[Tensor, "M K"]:
    """cos, then sin of each plane's angle at every place: where the position takes (1, 0)."""
    one_11MK = torch.zeros(1, 1, places, position.head_dim, **FLOATS)
    one_11MK[..., : position.head_dim // 2] = 1
    return position.query(one_11MK, Scene(torch.arange(places, device="cpu")[None]))[0, 0].contiguous()


def _processors() -> int:
    """Those this process may use: threads that wait for each other must not share one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
