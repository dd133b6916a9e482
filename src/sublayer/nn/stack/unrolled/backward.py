"""BackwardLoop: the loop's gradients, from the last token to the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sublayer.nn.feedforward.activation import ACTIVATIONS, Activation
from sublayer.nn.feedforward.fused import SLOPES
from sublayer.nn.stack import native
from sublayer.nn.stack.unrolled.gradient_accumulator import GradientAccumulator
from sublayer.nn.stack.unrolled.loop import Loop, activated, rotated, without_dropped

aten = torch.ops.aten

BLOCK = 32
"""Tokens whose gradients of weights, keys and values are summed in one product."""


class BackwardLoop(GradientAccumulator):
    """Token after token, the last first, in blocks that are walked backwards, too.

    A token's keys and values are read by later tokens only. So when backward reaches a block, all later blocks are
    done, and what they add to its keys and values is one product; then the block is walked token by token.
    """

    def __init__(self, loop: Loop, weights: Sequence[Tensor], to_k: Tensor, to_v: Tensor) -> None:
        super().__init__(loop, weights, to_k, to_v, min(BLOCK, loop.shape[0]))
        self.to_x_TBD = torch.empty_like(loop.x_NTBD[0])

    def run(self, to_x: Tensor) -> None:
        T, walk = self.loop.shape[0], native.Backward(self, to_x) if self.loop.native else self._walk(to_x)
        for start in range((T - 1) // BLOCK * BLOCK, -1, -BLOCK):
            block = range(start, min(start + BLOCK, T))
            self.add_to_keys(self.loop.memory + block.start, self.loop.memory + block.stop, block.stop)
            walk(block)
            self.add_to_weights(block)
        if self.loop.memory:
            self.add_to_keys(0, self.loop.memory, 0)
        self.add_to_sources()

    def _walk(self, to_x: Tensor) -> Callable[[range], None]:
        """Steps through a block, the last token first."""
        self.transposed = [one.transpose(-1, -2).contiguous() if one.dim() in (2, 3) else one for one in self.weights]

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
        """With the memory's gradient of the layer outputs that stand after `done` sublayers."""
        for layer, end in enumerate(self.plan.ends):
            if end == done:
                to_BD = to_BD + to_layers[layer]
        return to_BD

    def _recall(self, t: int, at: int) -> Tensor:
        """Through a token's keys, values and memory vectors to the gradients of its layer outputs."""
        plan, loop = self.plan, self.loop
        column = loop.memory + t
        to_k, to_v = self.to_k[:, :, :, column], self.to_v[:, :, :, column]
        if loop.rotation is not None:
            to_k = rotated(to_k, loop.rotation, t, back=True)
        to_kv_ABZ = self.to_kv[at]
        torch.stack([to_k, to_v], dim=2, out=to_kv_ABZ.view(*to_k.shape[:2], 2, *to_k.shape[2:]))
        to_in_ABD, to_m_RBD = torch.bmm(to_kv_ABZ, self.transposed[plan.project]), self.to_m[at]
        if len(to_m_RBD) == 1:
            to_in_RBD = to_in_ABD.sum(0, keepdim=True) if len(to_in_ABD) > 1 else to_in_ABD
        else:
            streams = torch.tensor(plan.streams, device=to_m_RBD.device)
            to_in_RBD = torch.zeros_like(to_m_RBD).index_add_(0, streams, to_in_ABD)
        if plan.entry:
            to_in_RBD = _unnormed(to_in_RBD, loop.m_TRBD[t], loop.of_memory, t)
        to_m_RBD.copy_(to_in_RBD)
        to_layers = self.transposed[plan.compose] @ to_m_RBD.view(len(to_m_RBD), -1)
        return to_layers.view(len(to_layers), *to_m_RBD.shape[1:])

    def _sublayer(self, n: int, t: int, at: int, block: range, to_BD: Tensor) -> Tensor:
        """From the gradient of a sublayer's output to that of its input."""
        sublayer, saved, grads = self.plan.sublayers[n], self.loop.saved[n], self.grads[n]
        if sublayer.after:
            grads["sum"][at] = to_BD
            gain = None if sublayer.after.gain is None else self.weights[sublayer.after.gain]
            to_BD = _unnormed(to_BD, saved["sum"][t], saved, t, gain)
        shortcut_BD = to_BD
        if sublayer.drop_out:
            to_BD = to_BD * saved["stay_out"][t]
        grads["out"][at] = to_BD
        to_in_BZ = grads["in"][at]
        if sublayer.activation:
            self._deactivate(n, t, sublayer.activation, to_BD, to_in_BZ)
        else:
            self._unattend(n, t, block, to_BD, to_in_BZ)
        to_u_BD = torch.mm(to_in_BZ, self.transposed[sublayer.enter])
        if sublayer.before:
            to_u_BD = _unnormed(to_u_BD, self.loop.x_NT[n][t], saved, t)
        return to_u_BD.add_(shortcut_BD)

    def _deactivate(self, n: int, t: int, activation: Activation, to_BD: Tensor, to_h_BF: Tensor) -> None:
        """Through a feed-forward's second matrix and its activation; the gradient of h is written to `to_h_BF`."""
        sublayer, saved = self.plan.sublayers[n], self.loop.saved[n]
        h_BF = saved["h"][t]
        to_y_BF = torch.mm(to_BD, self.transposed[sublayer.leave])
        if sublayer.drop:
            to_y_BF *= saved["stay"][t]
        if not sublayer.gated:
            to_h_BF.copy_(sloped(activation, to_y_BF, h_BF))
            return
        (gate, up), (to_gate, to_up) = h_BF.chunk(2, -1), to_h_BF.chunk(2, -1)
        torch.mul(to_y_BF, activated(activation, False, gate), out=to_up)
        to_gate.copy_(sloped(activation, to_y_BF.mul_(up), gate))

    def _unattend(self, n: int, t: int, block: range, to_BD: Tensor, to_q_BZ: Tensor) -> None:
        """Through an attention; the gradient of its queries is written to `to_q_BZ`."""
        loop, sublayer, saved = self.loop, self.plan.sublayers[n], self.loop.saved[n]
        seen, to_scores_TNHC, to_y_TBZ = loop.window(t, sublayer), self.to_scores[n], self.to_y[n]
        assert to_scores_TNHC is not None
        assert to_y_TBZ is not None
        to_y = loop.by_head(torch.mm(to_BD, self.transposed[sublayer.leave], out=to_y_TBZ[t]))
        if seen.start == seen.stop:
            to_q_BZ.zero_()
            return
        k, v = loop.keys[sublayer.keys][:, seen], loop.values[sublayer.keys][:, seen]
        weights, q = saved["weights"][t, :, :, seen].contiguous(), loop.by_head(saved["q"][t])
        to_weights = torch.bmm(to_y, v.transpose(1, 2))
        if sublayer.drop:  # dropped weights were saved with a minus sign: no gradient, but part of the softmax
            to_weights *= weights > 0
        to_scores = aten._softmax_backward_data(to_weights, weights.abs() if sublayer.drop else weights, -1, q.dtype)
        weights = without_dropped(weights, sublayer)
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
        if loop.rotation is not None:
            by_head = to_q_BZ.view(len(to_q_BZ), -1, loop.head_dim)
            by_head.copy_(rotated(by_head, loop.rotation, t, back=True))


def sloped(activation: Activation, to: Tensor, h: Tensor) -> Tensor:
    """to·act′(h)"""
    if activation in SLOPES:
        return SLOPES[activation](to, h.contiguous())
    with torch.enable_grad():
        leaf = h.detach().requires_grad_()
        return torch.autograd.grad(ACTIVATIONS[activation](leaf), leaf, to)[0]


def _unnormed(to: Tensor, x: Tensor, saved: dict[str, Tensor], t: int, gain: Tensor | None = None) -> Tensor:
    """Through a LayerNorm, from its saved mean and scale."""
    moments = saved["mean"][t], saved["scale"][t]
    return aten.native_layer_norm_backward(to, x, x.shape[-1:], *moments, gain, None, [True, False, False])[0]
