"""Back: place after place, backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sublayer.nn.feedforward.activation import ACTIVATIONS, Activation
from sublayer.nn.feedforward.fused import SLOPES
from sublayer.nn.stack import native
from sublayer.nn.stack.unrolled.gradient_accumulator import GradientAccumulator
from sublayer.nn.stack.unrolled.loop import Loop, activated, staying, turned

aten = torch.ops.aten

BLOCK = 32
"""Places whose shares in weights, keys and values are formed together."""


class Back(GradientAccumulator):
    """Place after place, backwards."""

    def __init__(self, loop: Loop, weights: Sequence[Tensor], to_k: Tensor, to_v: Tensor) -> None:
        super().__init__(loop, weights, to_k, to_v, min(BLOCK, loop.shape[0]))
        self.to_x_TBD = torch.empty_like(loop.x_NTBD[0])

    def run(self, to_x: Tensor) -> None:
        T, walk = self.loop.shape[0], native.Backward(self, to_x) if self.loop.native else self._walk(to_x)
        for start in range((T - 1) // BLOCK * BLOCK, -1, -BLOCK):
            block = range(start, min(start + BLOCK, T))
            self.settle_keys(self.loop.memory + block.start, self.loop.memory + block.stop, block.stop)
            walk(block)
            self.settle_weights(block)
        if self.loop.memory:
            self.settle_keys(0, self.loop.memory, 0)
        self.settle_sources()

    def _walk(self, to_x: Tensor) -> Callable[[range], None]:
        """Steps through a block, the last place first."""
        self.across = [one.transpose(-1, -2).contiguous() if one.dim() in (2, 3) else one for one in self.weights]

        def walk(block: range) -> None:
            for t in reversed(block):
                self._step(t, block, to_x[t])

        return walk

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
            to_in_RBD = _unnormed(to_in_RBD, loop.m_TRBD[t], loop.of_memory, t)
        to_m_RBD.copy_(to_in_RBD)
        to_layers = self.across[plan.compose] @ to_m_RBD.view(len(to_m_RBD), -1)
        return to_layers.view(len(to_layers), *to_m_RBD.shape[1:])

    def _sublayer(self, n: int, t: int, at: int, block: range, to_BD: Tensor) -> Tensor:
        """From the gradient of what leaves a sublayer to that of what enters it."""
        sublayer, kept, owed = self.plan.sublayers[n], self.loop.kept[n], self.owed[n]
        if sublayer.after:
            owed["sum"][at] = to_BD
            gain = None if sublayer.after.gain is None else self.weights[sublayer.after.gain]
            to_BD = _unnormed(to_BD, kept["sum"][t], kept, t, gain)
        shortcut_BD = to_BD
        if sublayer.drop_out:
            to_BD = to_BD * kept["stay_out"][t]
        owed["out"][at] = to_BD
        to_in_BZ = owed["in"][at]
        if sublayer.activation:
            self._deactivate(n, t, sublayer.activation, to_BD, to_in_BZ)
        else:
            self._unattend(n, t, block, to_BD, to_in_BZ)
        to_u_BD = torch.mm(to_in_BZ, self.across[sublayer.enter])
        if sublayer.before:
            to_u_BD = _unnormed(to_u_BD, self.loop.x_NT[n][t], kept, t)
        return to_u_BD.add_(shortcut_BD)

    def _deactivate(self, n: int, t: int, activation: Activation, to_BD: Tensor, to_h_BF: Tensor) -> None:
        """Through a feed-forward's second matrix and its activation, written to the last."""
        sublayer, kept = self.plan.sublayers[n], self.loop.kept[n]
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


def sloped(activation: Activation, to: Tensor, h: Tensor) -> Tensor:
    """to·act′(h)"""
    if activation in SLOPES:
        return SLOPES[activation](to, h.contiguous())
    with torch.enable_grad():
        leaf = h.detach().requires_grad_()
        return torch.autograd.grad(ACTIVATIONS[activation](leaf), leaf, to)[0]


def _unnormed(to: Tensor, x: Tensor, kept: dict[str, Tensor], t: int, gain: Tensor | None = None) -> Tensor:
    """Through a LayerNorm."""
    moments = kept["mean"][t], kept["scale"][t]
    return aten.native_layer_norm_backward(to, x, x.shape[-1:], *moments, gain, None, [True, False, False])[0]
