"""Loop: token after token, forwards."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor

from sublayer.nn.feedforward.activation import ACTIVATIONS, Activation
from sublayer.nn.stack import native
from sublayer.nn.stack.unrolled import dropout
from sublayer.nn.stack.unrolled.plan import NormSpec, Plan, SublayerSpec

HELD = {"x_NTBD", "k", "v", "m_TRBD", "saved", "of_memory", "weights", "x_NT", "keys", "values", "fades"}
"""Attributes that hold tensors of tokens or weights, or views of them. A loop stored in autograd's context must have
none: autograd frees only what it saved itself."""


class Loop:
    """Token after token, forwards; saves what backward needs."""

    def __init__(
        self,
        plan: Plan,
        mask_TBC: Tensor | None,
        rotation: tuple[Tensor, Tensor] | None,
        x_TBD: Tensor,
        past_k: Tensor,
        past_v: Tensor,
        weights: Sequence[Tensor],
    ) -> None:
        self.plan, self.mask_TBC, self.rotation, self.weights = plan, mask_TBC, rotation, weights
        self.native = native.computes(plan, x_TBD, weights)
        T, B, D = self.shape = x_TBD.shape
        A, _, G, self.memory, K = past_k.shape
        self.head_dim, self.wide = K, plan.heads * K
        self.x_NTBD = x_TBD.new_empty(len(plan.sublayers) + 1, T, B, D)
        self.x_NTBD[0] = x_TBD
        self.k, self.v = (past.new_empty(A, B, G, self.memory + T, K) for past in (past_k, past_v))
        self.k[:, :, :, : self.memory], self.v[:, :, :, : self.memory] = past_k, past_v
        self.m_TRBD = x_TBD.new_empty(T, len(weights[plan.compose]), B, D)
        self.saved = [self._room(sublayer) for sublayer in plan.sublayers]
        self.of_memory = self._moments(*self.m_TRBD.shape[:3])
        self.names: list[list[str]] = []
        self.table = None if plan.table is None else self.weights[plan.table].flip(0)

    def _room(self, sublayer: SublayerSpec) -> dict[str, Tensor]:
        """Buffers for what a sublayer saves of each token."""
        T, B, _ = self.shape
        like, room = self.x_NTBD, self._moments(T, B)
        if sublayer.after:
            room["sum"] = torch.empty_like(like[0])
        if sublayer.activation:
            room["h"] = like.new_empty(T, B, self.weights[sublayer.enter].shape[1])
            between = T, B, self.weights[sublayer.leave].shape[0]
        else:
            source = self.plan.source(sublayer)
            keys = self.k.shape[3] if source is None else self.weights[source[0]].shape[2]
            between = T, B * self.plan.groups, self.plan.heads // self.plan.groups, keys
            room |= {name: like.new_empty(T, B, self.wide) for name in ("q", "y")}
            room["weights"] = like.new_zeros(between)
        if sublayer.drop:
            room["stay"] = dropout.draw_mask(between, sublayer.drop, like)
        if sublayer.drop_out:
            room["stay_out"] = dropout.draw_mask(like[0].shape, sublayer.drop_out, like)
        return room

    def _moments(self, *shape: int) -> dict[str, Tensor]:
        """Buffers for a norm's mean and scale; the C code recomputes them."""
        return {} if self.native else {name: self.x_NTBD.new_empty(*shape, 1) for name in ("mean", "scale")}

    def _by_group(self, fade: int) -> Tensor:
        """(G, H/G, distances), farthest first."""
        return self.weights[fade].flip(1).unflatten(0, (self.plan.groups, -1))

    def window(self, t: int, sublayer: SublayerSpec) -> slice:
        """The keys that an attention sees from token t."""
        if (source := self.plan.source(sublayer)) is not None:
            return slice(0, self.weights[source[0]].shape[2])
        end = self.memory + t
        return slice(0 if sublayer.sees is None else max(0, end - sublayer.sees), end)

    def near(self, seen: slice) -> Tensor:
        """Rows of the table that are added to those keys by distance, the farthest first."""
        assert self.table is not None
        return self.table[len(self.table) - (seen.stop - seen.start) :]

    def by_head(self, x_BZ: Tensor) -> Tensor:
        """(B, H·K) as (B·G, H/G, K): queries of one group are one matrix."""
        return x_BZ.view(-1, self.plan.heads // self.plan.groups, self.head_dim)

    def run(self) -> None:
        if self.native:
            native.forward(self)
        else:
            self._lay_out()
            self._walk()
        for saved in self.saved:  # the sign of the saved weights marks what was dropped, so their mask can go
            if "weights" in saved:
                saved.pop("stay", None)

    def held(self) -> list[Tensor]:
        """All tensors that it saves of its tokens."""
        every = (x for saved in (*self.saved, self.of_memory) for x in saved.values())
        return [self.x_NTBD, self.k, self.v, self.m_TRBD, *every]

    def emptied(self) -> Loop:
        """A copy without those tensors, the weights, and views of either."""
        empty = copy(self)
        empty.names = [list(saved) for saved in (*self.saved, self.of_memory)]
        for name in HELD & vars(empty).keys():
            delattr(empty, name)
        return empty

    def filled(self, weights: Sequence[Tensor], held: Sequence[Tensor]) -> Loop:
        """An emptied loop with its tensors put back, for backward."""
        full, rest = copy(self), iter(held)
        full.weights = weights
        full.x_NTBD, full.k, full.v, full.m_TRBD = (next(rest) for _ in range(4))
        *full.saved, full.of_memory = ({name: next(rest) for name in names} for names in self.names)
        if not self.native:
            full._lay_out()
        return full

    def _lay_out(self) -> None:
        """Views of each token's tensors, made once: indexing at every step would cost more than the products."""
        # Products of few rows are faster with contiguous matrices.
        plan, self.weights = self.plan, [one.contiguous() for one in self.weights]
        self.x_NT = [one.unbind(0) for one in self.x_NTBD.unbind(0)]
        self.keys, self.values = (
            [one.flatten(0, 1) for one in (*own.unbind(0), *(self.weights[both[n]] for both in plan.sources))]
            for n, own in enumerate((self.k, self.v))
        )
        self.fades = {one.fade: self._by_group(one.fade) for one in plan.sublayers if one.fade is not None}
        gaps = {b - a for a, b in zip(plan.ends, plan.ends[1:], strict=False)}
        even = len(gaps) == 1 and min(gaps) > 0
        self.picked = slice(plan.ends[0], None, min(gaps)) if even else list(plan.ends)

    def _walk(self) -> None:
        saved_T = [
            [dict(zip(saved, one, strict=True)) for one in zip(*saved.values(), strict=True)] for saved in self.saved
        ]
        for t in range(self.shape[0]):
            for n, sublayer in enumerate(self.plan.sublayers):
                self._step(t, sublayer, saved_T[n][t], self.x_NT[n][t], self.x_NT[n + 1][t])
            self._remember(t)

    def _step(self, t: int, sublayer: SublayerSpec, saved: dict[str, Tensor], x_BD: Tensor, out_BD: Tensor) -> None:
        u_BD = self._normed(saved, x_BD, sublayer.before) if sublayer.before else x_BD
        if sublayer.activation:
            h_BF = self._times(u_BD, sublayer.enter, sublayer.enter_bias, saved["h"])
            y_BZ = activated(sublayer.activation, sublayer.gated, h_BF)
            if sublayer.drop:
                y_BZ = y_BZ * saved["stay"]
        else:
            y_BZ = self._attend(t, sublayer, saved, u_BD)
        sum_BD = saved["sum"] if sublayer.after else out_BD
        self._times(y_BZ, sublayer.leave, sublayer.leave_bias, sum_BD)
        if sublayer.drop_out:
            sum_BD *= saved["stay_out"]
        sum_BD += x_BD
        if sublayer.after:
            out_BD.copy_(self._normed(saved, sum_BD, sublayer.after))

    def _normed(self, saved: dict[str, Tensor], x: Tensor, norm: NormSpec) -> Tensor:
        gain, shift = (None if index is None else self.weights[index] for index in (norm.gain, norm.shift))
        normed, mean, scale = torch.native_layer_norm(x, x.shape[-1:], gain, shift, norm.eps)
        saved["mean"].copy_(mean)
        saved["scale"].copy_(scale)
        return normed

    def _times(self, x: Tensor, weight: int, bias: int | None, out: Tensor) -> Tensor:
        matrix = self.weights[weight]
        return torch.mm(x, matrix, out=out) if bias is None else torch.addmm(self.weights[bias], x, matrix, out=out)

    def _attend(self, t: int, sublayer: SublayerSpec, saved: dict[str, Tensor], u_BD: Tensor) -> Tensor:
        seen, y_BZ = self.window(t, sublayer), saved["y"]
        q_BZ = self._times(u_BD, sublayer.enter, sublayer.enter_bias, saved["q"])
        if seen.start == seen.stop:
            return y_BZ.zero_()
        k, v = self.keys[sublayer.keys][:, seen], self.values[sublayer.keys][:, seen]
        if self.plan.source(sublayer) is None:
            scores = self._recalled(t, sublayer, q_BZ, k, seen)
            mask_BC = None if self.mask_TBC is None else self.mask_TBC[t, :, seen]
        else:
            scores = torch.bmm(self.by_head(q_BZ), k.transpose(1, 2))
            mask_BC = None if self.plan.source_mask is None else self.weights[self.plan.source_mask]
        if mask_BC is not None:
            by_row = scores.view(len(u_BD), -1, scores.shape[-1])
            by_row += mask_BC[:, None]
        weights = scores.softmax(-1)
        if mask_BC is not None:  # a row that sees nothing: softmax gives NaN, its weights are 0
            weights.masked_fill_(scores.isneginf().all(-1, keepdim=True), 0)
        if sublayer.drop:  # a minus sign marks a dropped weight: one tensor holds both the softmax and the mask
            weights = torch.where(saved["stay"][:, :, seen], weights, -weights)
        saved["weights"][:, :, seen] = weights
        weights = without_dropped(weights, sublayer)
        torch.bmm(weights, v, out=self.by_head(y_BZ))
        return y_BZ

    def _recalled(self, t: int, sublayer: SublayerSpec, q_BZ: Tensor, k: Tensor, seen: slice) -> Tensor:
        """Scores on keys of the memory, with the terms that depend on distance."""
        if self.rotation is not None:
            q_BZ.copy_(rotated(q_BZ.view(len(q_BZ), -1, self.head_dim), self.rotation, t).flatten(1))
        q = self.by_head(q_BZ)
        if self.plan.table is None:
            scores = torch.bmm(q, k.transpose(1, 2))
        else:
            apart = (q_BZ.view(-1, self.head_dim) @ self.near(seen).T).view(*q.shape[:2], -1)
            scores = torch.baddbmm(apart, q, k.transpose(1, 2))
        if sublayer.fade is not None:
            fade = self.fades[sublayer.fade]
            by_group = scores.view(-1, *fade.shape[:2], scores.shape[-1])
            by_group += fade[..., fade.shape[-1] - scores.shape[-1] :]
        return scores

    def layers(self, t: int) -> Tensor:
        """x^0, x^1, … of a token, (layers, B·D)."""
        return self.x_NTBD[:, t][self.picked].view(len(self.plan.ends), -1)

    def _remember(self, t: int) -> None:
        plan, m_RBD = self.plan, self.m_TRBD[t]
        torch.mm(self.weights[plan.compose], self.layers(t), out=m_RBD.view(len(m_RBD), -1))
        saved = {name: x[t] for name, x in self.of_memory.items()}
        in_RBD = self._normed(saved, m_RBD, plan.entry) if plan.entry else m_RBD
        in_ABD = in_RBD if len(plan.streams) == 1 else in_RBD[list(plan.streams)]
        kv_ABZ = torch.bmm(in_ABD, self.weights[plan.project])
        if plan.project_bias is not None:
            kv_ABZ += self.weights[plan.project_bias][:, None]
        k, v = kv_ABZ.view(*kv_ABZ.shape[:2], 2, plan.groups, -1).unbind(2)
        at = self.memory + t
        self.k[:, :, :, at] = k if self.rotation is None else rotated(k, self.rotation, t)
        self.v[:, :, :, at] = v


def activated(activation: Activation, gated: bool, h: Tensor) -> Tensor:
    """act(h), or act(one half)·the other."""
    if gated:
        gate, up = h.chunk(2, -1)
        return ACTIVATIONS[activation](gate) * up
    return ACTIVATIONS[activation](h)


def without_dropped(weights: Tensor, sublayer: SublayerSpec) -> Tensor:
    """An attention's weights after dropout. Saved weights carry a minus sign where they are dropped: backward needs the
    value for the softmax and the sign for the mask."""
    return weights.clamp_min(0) if sublayer.drop else weights


def rotated(x: Tensor, rotation: tuple[Tensor, Tensor], t: int, *, back: bool = False) -> Tensor:
    """Rotary's rotation of one token's (…, B, heads, K), or its inverse."""
    cos, sin = (one[t][:, None] for one in rotation)
    half = x.shape[-1] // 2
    return x * cos + (torch.roll(x * sin, half, dims=-1) if back else torch.roll(x, half, dims=-1) * sin)
