"""GradientAccumulator: gradients that many places owe to a weight, a key or a value, formed of all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.stack.unrolled.loop import Loop, activated, staying
from sublayer.nn.stack.unrolled.plan import SublayerSpec

aten = torch.ops.aten


class GradientAccumulator:
    """Abstract: what the way back writes down of each place, and how it is settled."""

    def __init__(self, loop: Loop, weights: Sequence[Tensor], to_k: Tensor, to_v: Tensor, block: int) -> None:
        self.loop, self.plan, self.weights = loop, loop.plan, weights
        self.to_weights = [torch.zeros_like(weight) for weight in weights]
        self.to_k, self.to_v = (to.clone(memory_format=torch.contiguous_format) for to in (to_k, to_v))
        self.to_keys, self.to_values = (
            [to.flatten(0, 1) for to in (*own.unbind(0), *(self.to_weights[both[n]] for both in self.plan.sources))]
            for n, own in enumerate((self.to_k, self.to_v))
        )
        B, like = loop.shape[1], loop.x_NTBD
        self.owed = [self._room(sublayer, block) for sublayer in self.plan.sublayers]
        self.to_m = like.new_empty(block, *loop.m_TRBD.shape[1:])
        self.to_kv = like.new_empty(block, len(self.plan.streams), B, self.weights[self.plan.project].shape[2])
        self.to_scores = [self._scores(kept["weights"]) if "weights" in kept else None for kept in loop.kept]
        self.to_y = [torch.empty_like(kept["y"]) if "y" in kept else None for kept in loop.kept]

    def _room(self, sublayer: SublayerSpec, block: int) -> dict[str, Tensor]:
        """Gradients of a block that its weights wait for."""
        like, (_, B, D) = self.loop.x_NTBD, self.loop.shape
        inner = self.weights[sublayer.enter].shape[1]
        room = {"out": like.new_empty(block, B, D), "in": like.new_empty(block, B, inner)}
        more = {"sum": sublayer.after, "stream": sublayer.drop_out and self.loop.native}
        return room | {name: like.new_empty(block, B, D) for name, wanted in more.items() if wanted}

    def _scores(self, weights_TNHC: Tensor) -> Tensor:
        """Zeros, with a row of them before the first: `_by_distance` may reach there."""
        C = weights_TNHC.shape[-1]
        return weights_TNHC.new_zeros(C + weights_TNHC.numel())[C:].view_as(weights_TNHC)

    def past(self, to: Tensor) -> Tensor:
        return to[:, :, :, : self.loop.memory]

    def settle_keys(self, first: int, last: int, begin: int) -> None:
        """What places from `begin` on owe to these keys and values."""
        if begin == self.loop.shape[0]:
            return
        for n, sublayer in enumerate(self.plan.sublayers):
            if not sublayer.activation and self.plan.source(sublayer) is None:
                self._settle(n, slice(first, last), begin)

    def settle_sources(self) -> None:
        """What all places owe to keys and values of a source."""
        for n, sublayer in enumerate(self.plan.sublayers):
            if self.plan.source(sublayer) is not None:
                self._settle(n, slice(None), 0)

    def _settle(self, n: int, keys: slice, begin: int) -> None:
        """What an attention owes to some of its keys and values, from a place on."""
        sublayer, kept = self.plan.sublayers[n], self.loop.kept[n]
        pairs = (self.to_keys, self.to_scores[n], kept["q"]), (self.to_values, kept["weights"], self.to_y[n])
        for to, shares, vectors in pairs:
            assert shares is not None
            assert vectors is not None
            left = shares[begin:, :, :, keys].permute(1, 3, 0, 2).flatten(2)
            left = staying(left, sublayer) if to is self.to_values else left
            right = self._by_place(vectors[begin:]).permute(1, 0, 2, 3).flatten(1, 2)
            to[sublayer.keys][:, keys] += torch.bmm(left, right)

    def _by_place(self, x_TBZ: Tensor) -> Tensor:
        """(T, B, H·K) as (T, B·G, H/G, K)."""
        return x_TBZ.view(len(x_TBZ), -1, self.plan.heads // self.plan.groups, self.loop.head_dim)

    def settle_weights(self, block: range) -> None:
        """What a block owes to the weights."""
        size, now = len(block), slice(block.start, block.stop)
        plan, loop = self.plan, self.loop
        for n, (sublayer, kept, owed) in enumerate(zip(plan.sublayers, loop.kept, self.owed, strict=True)):
            u = loop.x_NTBD[n, now]
            if sublayer.before:
                u = F.layer_norm(u, u.shape[-1:], eps=sublayer.before.eps)
            if sublayer.activation:
                y = activated(sublayer.activation, sublayer.gated, kept["h"][now])
                if sublayer.drop:
                    y = y * kept["stay"][now]
            else:
                y = kept["y"][now]
            self._owe(sublayer.leave, sublayer.leave_bias, y, owed["out"][:size])
            self._owe(sublayer.enter, sublayer.enter_bias, u, owed["in"][:size])
            if sublayer.after and sublayer.after.gain is not None:
                self._settle_norm(n, now, owed["sum"][:size], sublayer.after.gain, sublayer.after.shift)
            if not sublayer.activation and plan.source(sublayer) is None and plan.table is not None:
                self._settle_table(n, now)
            if sublayer.fade is not None:
                self._settle_fade(n, now, self.to_weights[sublayer.fade])
        self._settle_memory(size, now)

    def _owe(self, weight: int, bias: int | None, x_TBZ: Tensor, to_TBZ: Tensor) -> None:
        self.to_weights[weight].addmm_(x_TBZ.flatten(0, 1).T, to_TBZ.flatten(0, 1))
        if bias is not None:
            self.to_weights[bias] += to_TBZ.sum((0, 1))

    def _settle_norm(self, n: int, now: slice, to_TBD: Tensor, gain: int, shift: int | None) -> None:
        weight, sum_TBD, norm = self.weights[gain], self.loop.kept[n]["sum"][now], self.plan.sublayers[n].after
        assert norm is not None
        _, *moments = torch.native_layer_norm(sum_TBD, weight.shape, None, None, norm.eps)
        _, to_gain, to_shift = aten.native_layer_norm_backward(
            to_TBD, sum_TBD, weight.shape, *moments, weight, weight, [False, True, True]
        )
        self.to_weights[gain] += to_gain
        if shift is not None:
            self.to_weights[shift] += to_shift

    def _settle_table(self, n: int, now: slice) -> None:
        assert self.plan.table is not None
        q_TNHK = self._by_place(self.loop.kept[n]["q"][now])
        to_RK = self.to_weights[self.plan.table]
        shares_TNHR = self._by_distance(n, now, len(to_RK))
        to_RK[: shares_TNHR.shape[-1]] += (shares_TNHR.flatten(0, 2).T @ q_TNHK.flatten(0, 2)).flip(0)

    def _settle_fade(self, n: int, now: slice, to_HR: Tensor) -> None:
        shares_TNHR = self._by_distance(n, now, to_HR.shape[1])
        by_group = shares_TNHR.unflatten(1, (-1, self.plan.groups)).sum((0, 1))
        to_HR[:, : shares_TNHR.shape[-1]] += by_group.flatten(0, 1).flip(1)

    def _by_distance(self, n: int, now: slice, distances: int) -> Tensor:
        """(T, B·G, H/G, distances): scores' gradients, turned from keys to distances, the farthest first.

        A view: each place's row of keys begins one later than the last one's. Where there is no key so far away, it
        shows the end of the row before, where keys stand that are not seen yet.
        """
        to_scores, memory = self.to_scores[n], self.loop.memory
        assert to_scores is not None
        distances = min(distances, memory + now.stop)
        by_place, *others = to_scores.stride()
        first = to_scores.storage_offset() + now.start * (by_place + 1) + memory - distances
        shape = now.stop - now.start, *to_scores.shape[1:3], distances
        return to_scores.as_strided(shape, (by_place + 1, *others), first)

    def _settle_memory(self, size: int, now: slice) -> None:
        plan, loop = self.plan, self.loop
        m_TRBD = loop.m_TRBD[now]
        in_TRBD = F.layer_norm(m_TRBD, m_TRBD.shape[-1:], eps=plan.entry.eps) if plan.entry else m_TRBD
        in_ATBD, to_ATBZ = in_TRBD[:, list(plan.streams)].transpose(0, 1), self.to_kv[:size].transpose(0, 1)
        self.to_weights[plan.project].baddbmm_(in_ATBD.flatten(1, 2).transpose(1, 2), to_ATBZ.flatten(1, 2))
        if plan.project_bias is not None:
            self.to_weights[plan.project_bias] += to_ATBZ.sum((1, 2))
        x_LTBD = loop.x_NTBD[list(plan.ends), now]
        self.to_weights[plan.compose].addmm_(self.to_m[:size].transpose(0, 1).flatten(1), x_LTBD.flatten(1).T)
