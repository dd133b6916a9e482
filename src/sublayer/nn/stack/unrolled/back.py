"""Back: place after place, backwards, and what is formed of many places at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.feedforward.activation import ACTIVATIONS, Activation
from sublayer.nn.feedforward.fused import SLOPES
from sublayer.nn.stack import native
from sublayer.nn.stack.unrolled.loop import Loop, activated, staying, turned
from sublayer.nn.stack.unrolled.plan import Sublayer

aten = torch.ops.aten

BLOCK = 32
"""Places whose shares in weights, keys and values are formed together."""


class Back:
    """Place after place, backwards."""

    def __init__(self, loop: Loop, weights: Sequence[Tensor], to_k: Tensor, to_v: Tensor) -> None:
        self.loop, self.plan, self.weights = loop, loop.plan, weights
        self.to_weights = [torch.zeros_like(weight) for weight in weights]
        self.to_k, self.to_v = (to.clone(memory_format=torch.contiguous_format) for to in (to_k, to_v))
        source_k, source_v = ([self.to_weights[both[n]] for both in self.plan.sources] for n in (0, 1))
        self.to_keys, self.to_values = (
            [to.flatten(0, 1) for to in (*both.unbind(0), *source)]
            for both, source in ((self.to_k, source_k), (self.to_v, source_v))
        )
        T, B, _ = loop.shape
        self.to_x_TBD = torch.empty_like(loop.x_NTBD[0])
        block, like = min(BLOCK, T), loop.x_NTBD
        self.owed = [self._room(sublayer, block) for sublayer in self.plan.sublayers]
        self.to_m = like.new_empty(block, *loop.m_TRBD.shape[1:])
        self.to_kv = like.new_empty(block, len(self.plan.streams), B, self.weights[self.plan.project].shape[2])
        self.to_scores = [self._scores(kept["weights"]) if "weights" in kept else None for kept in loop.kept]
        self.to_y = [torch.empty_like(kept["y"]) if "y" in kept else None for kept in loop.kept]

    def _room(self, sublayer: Sublayer, block: int) -> dict[str, Tensor]:
        """Gradients of a block that its weights wait for."""
        like, (_, B, D) = self.loop.x_NTBD, self.loop.shape
        inner = self.weights[sublayer.enter].shape[1]
        room = {"out": like.new_empty(block, B, D), "in": like.new_empty(block, B, inner)}
        more = {"sum": sublayer.after, "stream": sublayer.drop_out}
        return room | {name: like.new_empty(block, B, D) for name, wanted in more.items() if wanted}

    def _scores(self, weights_TNHC: Tensor) -> Tensor:
        """Zeros, with a row of them before the first: `_by_distance` may reach there."""
        C = weights_TNHC.shape[-1]
        return weights_TNHC.new_zeros(C + weights_TNHC.numel())[C:].view_as(weights_TNHC)

    def past(self, to: Tensor) -> Tensor:
        return to[:, :, :, : self.loop.memory]

    def run(self, to_x: Tensor) -> None:
        T, walk = self.loop.shape[0], native.Backward(self, to_x) if self.loop.native else self._walk(to_x)
        for start in range((T - 1) // BLOCK * BLOCK, -1, -BLOCK):
            block = range(start, min(start + BLOCK, T))
            self._settle_keys(self.loop.memory + block.start, self.loop.memory + block.stop, block.stop)
            walk(block)
            self._settle_weights(block)
        if self.loop.memory:
            self._settle_keys(0, self.loop.memory, 0)
        for n, sublayer in enumerate(self.plan.sublayers):
            if self.plan.source(sublayer) is not None:
                self._settle(n, slice(None), 0)

    def _walk(self, to_x: Tensor) -> Callable[[range], None]:
        """Steps through a block, the last place first."""
        self.across = [one.transpose(-1, -2).contiguous() if one.dim() > 1 else one for one in self.weights]

        def walk(block: range) -> None:
            for t in reversed(block):
                self._step(t, block, to_x[t])

        return walk

    def _settle_keys(self, first: int, last: int, begin: int) -> None:
        """What places from `begin` on owe to these keys and values."""
        if begin == self.loop.shape[0]:
            return
        for n, sublayer in enumerate(self.plan.sublayers):
            if not sublayer.activation and self.plan.source(sublayer) is None:
                self._settle(n, slice(first, last), begin)

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

    def _step(self, t: int, block: range, to_BD: Tensor) -> None:
        at, to_layers = t - block.start, self._recall(t, t - block.start)
        for n in reversed(range(len(self.plan.sublayers))):
            to_BD = self._sublayer(n, t, at, block, self._joined(n + 1, to_BD, to_layers))
        self.to_x_TBD[t] = self._joined(0, to_BD, to_layers)

    def _joined(self, done: int, to_BD: Tensor, to_layers: Tensor) -> Tensor:
        """With what the memory owes to the layers that end after so many sublayers."""
        for layer, end in enumerate(self.plan.ends):
            if end == done:
                to_BD = to_BD + to_layers[layer]
        return to_BD

    def _recall(self, t: int, at: int) -> Tensor:
        """Through keys, values and memory vectors to the layers of a place."""
        plan, loop = self.plan, self.loop
        place = loop.memory + t
        to_k, to_v = self.to_k[:, :, :, place], self.to_v[:, :, :, place]
        if loop.turn is not None:
            to_k = turned(to_k, loop.turn, t, back=True)
        to_kv_ABZ = self.to_kv[at]
        torch.stack([to_k, to_v], dim=2, out=to_kv_ABZ.view(*to_k.shape[:2], 2, *to_k.shape[2:]))
        to_in_ABD, to_m_RBD = torch.bmm(to_kv_ABZ, self.across[plan.project]), self.to_m[at]
        if len(to_m_RBD) == 1:
            to_in_RBD = to_in_ABD.sum(0, keepdim=True) if len(to_in_ABD) > 1 else to_in_ABD
        else:
            streams = torch.tensor(plan.streams, device=to_m_RBD.device)
            to_in_RBD = torch.zeros_like(to_m_RBD).index_add_(0, streams, to_in_ABD)
        if plan.entry:
            to_in_RBD = _unnormed(to_in_RBD, loop.m_TRBD[t], loop.moments[-1][t])
        to_m_RBD.copy_(to_in_RBD)
        to_layers = self.across[plan.compose] @ to_m_RBD.view(len(to_m_RBD), -1)
        return to_layers.view(len(to_layers), *to_m_RBD.shape[1:])

    def _sublayer(self, n: int, t: int, at: int, block: range, to_BD: Tensor) -> Tensor:
        """From the gradient of what leaves a sublayer to that of what enters it."""
        sublayer, kept, owed = self.plan.sublayers[n], self.loop.kept[n], self.owed[n]
        if sublayer.after:
            owed["sum"][at] = to_BD
            gain = None if sublayer.after.gain is None else self.weights[sublayer.after.gain]
            to_BD = _unnormed(to_BD, kept["sum"][t], self.loop.moments[n][t], gain)
        shortcut_BD = to_BD
        if sublayer.drop_out:
            to_BD = to_BD * kept["stay_out"][t]
        owed["out"][at] = to_BD
        to_in_BZ = owed["in"][at]
        if sublayer.activation:
            self._deactivate(sublayer.activation, sublayer, to_BD, t, kept, to_in_BZ)
        else:
            self._unattend(n, t, block, to_BD, to_in_BZ)
        to_u_BD = torch.mm(to_in_BZ, self.across[sublayer.enter])
        if sublayer.before:
            to_u_BD = _unnormed(to_u_BD, self.loop.x_NT[n][t], self.loop.moments[n][t])
        return to_u_BD.add_(shortcut_BD)

    def _deactivate(
        self,
        activation: Activation,
        sublayer: Sublayer,
        to_BD: Tensor,
        t: int,
        kept: dict[str, Tensor],
        to_h_BF: Tensor,
    ) -> None:
        """Through a feed-forward's second matrix and its activation, written to the last."""
        h_BF = kept["h"][t]
        to_y_BF = torch.mm(to_BD, self.across[sublayer.leave])
        if sublayer.drop:
            to_y_BF *= kept["stay"][t]
        if not sublayer.gated:
            to_h_BF.copy_(sloped(activation, to_y_BF, h_BF))
            return
        (gate, up), (to_gate, to_up) = h_BF.chunk(2, -1), to_h_BF.chunk(2, -1)
        torch.mul(to_y_BF, activated(activation, False, gate), out=to_up)
        to_gate.copy_(sloped(activation, to_y_BF.mul_(up), gate))

    def _unattend(self, n: int, t: int, block: range, to_BD: Tensor, to_q_BZ: Tensor) -> None:
        """Through attention to the queries, written to the last."""
        loop, sublayer, kept = self.loop, self.plan.sublayers[n], self.loop.kept[n]
        seen, to_scores_TNHC, to_y_TBZ = loop.window(t, sublayer), self.to_scores[n], self.to_y[n]
        assert to_scores_TNHC is not None
        assert to_y_TBZ is not None
        to_y = loop.by_head(torch.mm(to_BD, self.across[sublayer.leave], out=to_y_TBZ[t]))
        if seen.start == seen.stop:
            to_q_BZ.zero_()
            return
        k, v = loop.keys[sublayer.keys][:, seen], loop.values[sublayer.keys][:, seen]
        weights, q = kept["weights"][t, :, :, seen].contiguous(), loop.by_head(kept["q"][t])
        to_weights = torch.bmm(to_y, v.transpose(1, 2))
        if sublayer.drop:
            to_weights *= weights > 0
        to_scores = aten._softmax_backward_data(to_weights, weights.abs() if sublayer.drop else weights, -1, q.dtype)
        weights = staying(weights, sublayer)
        to_scores_TNHC[t, :, :, seen] = to_scores
        to_q = torch.bmm(to_scores, k, out=loop.by_head(to_q_BZ))
        if self.plan.source(sublayer) is not None:
            return
        if self.plan.table is not None:
            to_q.view(-1, loop.head_dim).addmm_(to_scores.view(-1, to_scores.shape[-1]), loop.near(seen))
        near = slice(max(seen.start, loop.memory + block.start), seen.stop)
        if near.start < near.stop:
            inside = slice(near.start - seen.start, near.stop - seen.start)
            to_k, to_v = self.to_keys[sublayer.keys][:, near], self.to_values[sublayer.keys][:, near]
            for head in range(q.shape[1]):
                to_k.addcmul_(to_scores[:, head, inside, None], q[:, head, None])
                to_v.addcmul_(weights[:, head, inside, None], to_y[:, head, None])
        if loop.turn is not None:
            by_head = to_q_BZ.view(len(to_q_BZ), -1, loop.head_dim)
            by_head.copy_(turned(by_head, loop.turn, t, back=True))

    def _settle_weights(self, block: range) -> None:
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


def sloped(activation: Activation, to: Tensor, h: Tensor) -> Tensor:
    """to·act′(h)"""
    if activation in SLOPES:
        return SLOPES[activation](to, h.contiguous())
    with torch.enable_grad():
        leaf = h.detach().requires_grad_()
        return torch.autograd.grad(ACTIVATIONS[activation](leaf), leaf, to)[0]


def _unnormed(to: Tensor, x: Tensor, moments: tuple[Tensor, Tensor], gain: Tensor | None = None) -> Tensor:
    """Through a LayerNorm."""
    return aten.native_layer_norm_backward(to, x, x.shape[-1:], *moments, gain, None, [True, False, False])[0]
