"""One token a row in one call: step.c appends to the keys and values of a decoder, and computes the scores."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.generation.native import form
from sublayer.generation.native.description import Description
from sublayer.generation.native.lists import Lists
from sublayer.generation.native.source import SOURCE
from sublayer.generation.native.tensors import FLOATS
from sublayer.native import load
from sublayer.native.threads import worthwhile
from sublayer.nn.memory import KeyValues
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
        self._far: dict[int, Tensor] = {}
        """By cache, which tokens its first slots hold, where these are not the ones just before the others."""
        for n, index in enumerate(self._held.stored):
            self._take_over(n, state.parts[index])
        structs = self._step.sublayer
        self._lists = {
            self._held.sublayers[at[0]].cache: Lists(listed, [structs[index] for index in at])
            for listed, at in self._held.listed.items()
        }
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
            self._move(n, self._keys[n])
        if full:
            self._allocate()
        if self._held.rotary and self.start >= self._angle_count:
            self._extend_angles(2 * self.start)
        for n, lists in self._lists.items():
            lists.write(self.start, self._oldest(n), self._far.get(n))
        self._x_BD.copy_(x_BD)
        out_BN = torch.empty(self._out, **FLOATS)
        self._step.out = out_BN.data_ptr()
        self._run(ctypes.byref(self._step))
        return out_BN

    @property
    def state_bytes(self) -> int:
        """Of the buffers of keys and values."""
        return sum(keys.nbytes for keys in self._keys.values())

    def select(self, rows_B: Int[Tensor, " B"]) -> None:
        """Rows in any order and number."""
        self._first_B = self._first_B[rows_B]
        for n, keys in self._keys.items():
            self._hold(n, keys.index_select(1, rows_B))
        self._allocate()

    def _oldest(self, n: int) -> int:
        """The first token of those that a cache holds one after the other, behind its far ones."""
        return self.start - self._caches[n].held + len(self._far.get(n, ()))

    def _take_over(self, n: int, stored: KeyValues) -> None:
        """The keys and values of a state."""
        pieces = [torch.stack([stored.k.value, stored.v.value])]
        if stored.far is not None:
            self._far[n] = stored.far.t.value.clone()
            pieces.insert(0, torch.stack([stored.far.k.value, stored.far.v.value]))
        self._move(n, torch.cat(pieces, dim=3))

    def _move(self, n: int, keys: Float[Tensor, "2 B G M K"]) -> None:
        """To a buffer with twice the room; tokens that no reader can see any more are not copied."""
        self._caches[n].held = keys.shape[3]
        recent, far = self._held.recent(n), len(self._far.get(n, ()))
        leaving = 0 if recent is None else max(0, keys.shape[3] - far - recent)
        first = torch.cat([torch.arange(far, device="cpu"), self._outlast(n, leaving) + far])
        rest = keys[:, :, :, far + leaving :]
        count = self._caches[n].held = len(first) + rest.shape[3]
        room = torch.empty(*keys.shape[:3], max(16, 2 * count), keys.shape[4], **FLOATS)
        room[:, :, :, : len(first)] = keys.index_select(3, first)
        room[:, :, :, len(first) : count] = rest
        self._hold(n, room)

    def _outlast(self, n: int, leaving: int) -> Int[Tensor, " F"]:
        """Which of the `leaving` oldest tokens that a cache holds behind its far ones become far."""
        pattern, oldest = self._held.outlasting(n), self._oldest(n)
        if pattern is None or not leaving:
            return torch.empty(0, dtype=torch.long, device="cpu")
        i_BN = torch.arange(oldest, oldest + leaving, device="cpu") - self._first_B.unique()[:, None]
        at = (pattern.lasts(i_BN) & (i_BN >= 0)).any(0).nonzero().flatten()
        self._far[n] = torch.cat([self._far[n], at + oldest]) if n in self._far else at + oldest
        return at

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
        for lists in self._lists.values():
            lists.start_rows(self._first_B)
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
