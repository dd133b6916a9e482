"""GradientAccumulator: gradients of weights, keys and values, summed over many tokens in one product.

A token has few rows, so its own product would read and write a whole weight gradient for little work. The walk writes
down each token's gradients instead, and a block of tokens is multiplied at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.stack.unrolled.loop import Loop, activated, without_dropped
from sublayer.nn.stack.unrolled.plan import SublayerSpec

aten = torch.ops.aten


class GradientAccumulator:
    """Abstract: buffers for the gradients of each token, and the sums over them."""

    def __init__(self, loop: Loop, weights: Sequence[Tensor], to_k: Tensor, to_v: Tensor, block: int) -> None:
        self.loop, self.plan, self.weights = loop, loop.plan, weights
        self.to_weights = [torch.zeros_like(weight) for weight in weights]
        self.to_k, self.to_v = (to.clone(memory_format=torch.contiguous_format) for to in (to_k, to_v))
        self.to_keys, self.to_values = (
            [to.flatten(0, 1) for to in (*own.unbind(0), *(self.to_weights[both[n]] for both in self.plan.sources))]
            for n, own in enumerate((self.to_k, self.to_v))
        )
        B, like = loop.shape[1], loop.x_NTBD
        self.grads = [self._room(sublayer, block) for sublayer in self.plan.sublayers]
        self.to_m = like.new_empty(block, *loop.m_TRBD.shape[1:])
        self.to_kv = like.new_empty(block, len(self.plan.streams), B, self.weights[self.plan.project].shape[2])
        self.to_scores = [self._scores(saved["weights"]) if "weights" in saved else None for saved in loop.saved]
        self.to_y = [torch.empty_like(saved["y"]) if "y" in saved else None for saved in loop.saved]

    def _room(self, sublayer: SublayerSpec, block: int) -> dict[str, Tensor]:
        """Gradients of a block's tokens, from which those of the weights are formed."""
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

    def add_to_keys(self, first: int, last: int, begin: int) -> None:
        """Add the gradients that tokens from `begin` on give to the keys and values [first, last)."""
        if begin == self.loop.shape[0]:
            return
        for n, sublayer in enumerate(self.plan.sublayers):
            if not sublayer.activation and self.plan.source(sublayer) is None:
                self._add_from_attention(n, slice(first, last), begin)

    def add_to_sources(self) -> None:
        """Add the gradients that all tokens give to keys and values of a source."""
        for n, sublayer in enumerate(self.plan.sublayers):
            if self.plan.source(sublayer) is not None:
                self._add_from_attention(n, slice(None), 0)

    def _add_from_attention(self, n: int, keys: slice, begin: int) -> None:
        """Add the gradients that one attention, from token `begin` on, gives to some of its keys and values."""
        sublayer, saved = self.plan.sublayers[n], self.loop.saved[n]
        pairs = (self.to_keys, self.to_scores[n], saved["q"]), (self.to_values, saved["weights"], self.to_y[n])
        for to, shares, vectors in pairs:
            assert shares is not None
            assert vectors is not None
            left = shares[begin:, :, :, keys].permute(1, 3, 0, 2).flatten(2)
            left = without_dropped(left, sublayer) if to is self.to_values else left
            right = self._by_token(vectors[begin:]).permute(1, 0, 2, 3).flatten(1, 2)
            to[sublayer.keys][:, keys] += torch.bmm(left, right)

    def _by_token(self, x_TBZ: Tensor) -> Tensor:
        """(T, B, H·K) as (T, B·G, H/G, K)."""
        return x_TBZ.view(len(x_TBZ), -1, self.plan.heads // self.plan.groups, self.loop.head_dim)

    def add_to_weights(self, block: range) -> None:
        """Add the gradients that a block's tokens give to the weights."""
        size, now = len(block), slice(block.start, block.stop)
        plan, loop = self.plan, self.loop
        for n, (sublayer, saved, grads) in enumerate(zip(plan.sublayers, loop.saved, self.grads, strict=True)):
            u = loop.x_NTBD[n, now]
            if sublayer.before:
                u = F.layer_norm(u, u.shape[-1:], eps=sublayer.before.eps)
            if sublayer.activation:
                y = activated(sublayer.activation, sublayer.gated, saved["h"][now])
                if sublayer.drop:
                    y = y * saved["stay"][now]
            else:
                y = saved["y"][now]
            self._add_product(sublayer.leave, sublayer.leave_bias, y, grads["out"][:size])
            self._add_product(sublayer.enter, sublayer.enter_bias, u, grads["in"][:size])
            if sublayer.after and sublayer.after.gain is not None:
                self._add_to_norm(n, now, grads["sum"][:size], sublayer.after.gain, sublayer.after.shift)
            if not sublayer.activation and plan.source(sublayer) is None and plan.table is not None:
                self._add_to_table(n, now)
            if sublayer.fade is not None:
                self._add_to_fade(n, now, self.to_weights[sublayer.fade])
        self._add_to_projection(size, now)

    def _add_product(self, weight: int, bias: int | None, x_TBZ: Tensor, to_TBZ: Tensor) -> None:
        self.to_weights[weight].addmm_(x_TBZ.flatten(0, 1).T, to_TBZ.flatten(0, 1))
        if bias is not None:
            self.to_weights[bias] += to_TBZ.sum((0, 1))

    def _add_to_norm(self, n: int, now: slice, to_TBD: Tensor, gain: int, shift: int | None) -> None:
        weight, sum_TBD, norm = self.weights[gain], self.loop.saved[n]["sum"][now], self.plan.sublayers[n].after
        assert norm is not None
        _, *moments = torch.native_layer_norm(sum_TBD, weight.shape, None, None, norm.eps)
        _, to_gain, to_shift = aten.native_layer_norm_backward(
            to_TBD, sum_TBD, weight.shape, *moments, weight, weight, [False, True, True]
        )
        self.to_weights[gain] += to_gain
        if shift is not None:
            self.to_weights[shift] += to_shift

    def _add_to_table(self, n: int, now: slice) -> None:
        assert self.plan.table is not None
        q_TNHK = self._by_token(self.loop.saved[n]["q"][now])
        to_RK = self.to_weights[self.plan.table]
        shares_TNHR = self._by_distance(n, now, len(to_RK))
        to_RK[: shares_TNHR.shape[-1]] += (shares_TNHR.flatten(0, 2).T @ q_TNHK.flatten(0, 2)).flip(0)

    def _add_to_fade(self, n: int, now: slice, to_HR: Tensor) -> None:
        shares_TNHR = self._by_distance(n, now, to_HR.shape[1])
        by_group = shares_TNHR.unflatten(1, (-1, self.plan.groups)).sum((0, 1))
        to_HR[:, : shares_TNHR.shape[-1]] += by_group.flatten(0, 1).flip(1)

    def _by_distance(self, n: int, now: slice, distances: int) -> Tensor:
        """(T, B·G, H/G, distances): gradients of scores, by distance instead of by key, the farthest first.

        A strided view, no copy: each token's row begins one key later than that of the token before. Where there is no
        key at a distance, the view shows the end of the row before, which holds keys not seen yet, so zeros.
        """
        to_scores, memory = self.to_scores[n], self.loop.memory
        assert to_scores is not None
        distances = min(distances, memory + now.stop)
        by_token, *others = to_scores.stride()
        first = to_scores.storage_offset() + now.start * (by_token + 1) + memory - distances
        shape = now.stop - now.start, *to_scores.shape[1:3], distances
        return to_scores.as_strided(shape, (by_token + 1, *others), first)

    def _add_to_projection(self, size: int, now: slice) -> None:
        plan, loop = self.plan, self.loop
        m_TRBD = loop.m_TRBD[now]
        in_TRBD = F.layer_norm(m_TRBD, m_TRBD.shape[-1:], eps=plan.entry.eps) if plan.entry else m_TRBD
        in_ATBD, to_ATBZ = in_TRBD[:, list(plan.streams)].transpose(0, 1), self.to_kv[:size].transpose(0, 1)
        self.to_weights[plan.project].baddbmm_(in_ATBD.flatten(1, 2).transpose(1, 2), to_ATBZ.flatten(1, 2))
        if plan.project_bias is not None:
            self.to_weights[plan.project_bias] += to_ATBZ.sum((1, 2))
        x_LTBD = loop.x_NTBD[list(plan.ends), now]
        self.to_weights[plan.compose].addmm_(self.to_m[:size].transpose(0, 1).flatten(1), x_LTBD.flatten(1).T)
