"""The loop of `unrolled/` over its own buffers, in C: all tokens forwards, or a block of them backwards."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_int64
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from sublayer.native import load
from sublayer.native.pointwise import ACTIVATIONS, NORMS, NormStruct
from sublayer.native.tensors import address, plain, watched
from sublayer.native.threads import worthwhile
from sublayer.nn.stack.native.form import DEEP, WIDE, LoopMatrix, LoopStruct, LoopSublayer

if TYPE_CHECKING:
    from sublayer.nn.stack.unrolled import plan as plans
    from sublayer.nn.stack.unrolled.backward import BackwardLoop
    from sublayer.nn.stack.unrolled.loop import Loop as Pass

SOURCE = Path(__file__).with_name("loop.c")
APART = 8
"""Rows per thread from which on threads split rows; with fewer they split features, or each would read all matrices for
little work."""
LINE = 16
"""Floats of a cache line, to which scratch is aligned."""


def available() -> bool:
    """Whether there is a C library: a compiler, and no SUBLAYER_NATIVE=0."""
    return load(SOURCE, "the Feedback loop") is not None


def runs(x: Tensor) -> bool:
    """Whether C may read this: a plain array of floats, no tracer that must see each operation, and a library."""
    return plain(x) and not watched() and available()


def knows(activation: str | None) -> bool:
    """Whether C has this activation of a feed-forward; None, of other sublayers, needs none."""
    return activation is None or activation in ACTIVATIONS


def computes(plan: plans.Plan, x_TBD: Tensor, weights: Sequence[Tensor]) -> bool:
    """Whether C has every activation of the plan, and may read the input and the weights."""
    known = all(knows(one.activation) for one in plan.sublayers)
    return known and 0 not in x_TBD.shape and runs(x_TBD) and all(plain(one) for one in weights)


def forward(loop: Pass) -> None:
    form = Form(loop)
    library = load(SOURCE, "the Feedback loop")
    assert library is not None
    library.sublayer_loop(byref(form.loop))


class Backward:
    """Backward of one pass: each call does a block of tokens."""

    def __init__(self, back: BackwardLoop, to_x_TBD: Tensor) -> None:
        self.form = Form(back.loop, back, to_x_TBD.contiguous())
        library = load(SOURCE, "the Feedback loop")
        assert library is not None
        self.run = library.sublayer_loop_back
        library.sublayer_loop_pack(byref(self.form.loop))

    def __call__(self, block: range) -> None:
        self.run(byref(self.form.loop), c_int64(block.start), c_int64(block.stop))


class Form:
    """A pass as the struct that loop.c takes; it keeps the tensors behind the addresses alive."""

    def __init__(self, loop: Pass, back: BackwardLoop | None = None, to_x_TBD: Tensor | None = None) -> None:
        self.of, self.back, self.held = loop, back, []
        plan, (T, B, D) = loop.plan, loop.shape
        A, _, G, C, K = loop.k.shape
        R, layers = loop.m_TRBD.shape[1], len(plan.ends)
        sublayers = [self._sublayer(n) for n in range(len(plan.sublayers))]
        project = [self._matrix(plan.project, plan.project_bias, a) for a in range(A)]
        work = B * sum(m.in_ * m.out for one in sublayers for m in (one.enter, one.leave))
        threads = worthwhile(work, len(sublayers))
        by_rows = threads == 1 or threads * APART <= B
        sizes = T, plan.heads, G, K, loop.memory, C, A, R, layers, len(sublayers), threads, by_rows
        self.loop = LoopStruct(B, D, *sizes)
        self.loop.sublayer, self.loop.project = (LoopSublayer * len(sublayers))(*sublayers), (LoopMatrix * A)(*project)
        self.loop.ends, self.loop.stream = (c_int64 * layers)(*plan.ends), (c_int64 * A)(*plan.streams)
        self.loop.compose = self._address(loop.weights[plan.compose])
        self.loop.entry = self._norm(plan.entry)
        self.loop.near = self._near()
        self.loop.mask = self._address(loop.mask_TBC)
        self.loop.source_mask = None if plan.source_mask is None else self._address(loop.weights[plan.source_mask])
        if loop.rotation is not None:
            self.loop.cos, self.loop.sin = (self._address(one) for one in loop.rotation)
            self.loop.rotations = loop.rotation[0].shape[1]
        for name, x in {"x": loop.x_NTBD, "k": loop.k, "v": loop.v, "m": loop.m_TRBD}.items():
            setattr(self.loop, name, self._address(x))
        if back is not None:
            names = {"to_last": to_x_TBD, "to_first": back.to_x_TBD, "to_k": back.to_k, "to_v": back.to_v}
            for name, x in {**names, "to_kv": back.to_kv, "to_m": back.to_m}.items():
                setattr(self.loop, name, self._address(x))
        self._make_room()

    def _address(self, x: Tensor | None) -> int | None:
        if x is None:
            return None
        self.held.append(x.detach().contiguous())
        return address(self.held[-1])

    def _norm(self, norm: plans.NormSpec | None) -> NormStruct:
        if norm is None:
            return NormStruct()
        gain, shift = (
            None if index is None else self._address(self.of.weights[index]) for index in (norm.gain, norm.shift)
        )
        return NormStruct(NORMS["layer"], gain, shift, norm.eps)

    def _matrix(self, index: int, bias: int | None, part: int | None = None) -> LoopMatrix:
        weight, shift = self.of.weights[index], None if bias is None else self.of.weights[bias]
        if part is not None:
            weight, shift = weight[part], None if shift is None else shift[part]
        return self._laid(weight, shift)

    def _laid(self, weight: Tensor, bias: Tensor | None = None) -> LoopMatrix:
        """(in, out), any strides; transposed in backward."""
        if self.back is not None:
            weight, bias = weight.T, None
        self.held.append(weight)
        return LoopMatrix(*weight.shape, address(weight), self._address(bias), *weight.stride())

    def _near(self) -> LoopMatrix:
        return LoopMatrix() if self.of.table is None else self._laid(self.of.table.T)

    def _sublayer(self, n: int) -> LoopSublayer:
        of, saved = self.of.plan.sublayers[n], self.of.saved[n]
        made: dict[str, Any] = {name: self._address(x) for name, x in saved.items()}
        if self.back is not None:
            made.update({f"to_{name}": self._address(x) for name, x in self.back.grads[n].items()})
            made.update(to_scores=self._address(self.back.to_scores[n]), to_y=self._address(self.back.to_y[n]))
        if of.activation:
            made.update(gated=of.gated, activation=ACTIVATIONS[of.activation])
        else:
            made.update(attends=1, keys=of.keys, sees=-1 if of.sees is None else of.sees, drops=of.drop > 0)
        if (source := self.of.plan.source(of)) is not None:
            k, v = (self.of.weights[index] for index in source)
            made.update(source=k.shape[2], source_k=self._address(k), source_v=self._address(v))
        if of.fade is not None:
            fade_HR = self.of.weights[of.fade].flip(1)
            made.update(fade=self._address(fade_HR), fades=fade_HR.shape[1])
        return LoopSublayer(
            before=self._norm(of.before),
            after=self._norm(of.after),
            enter=self._matrix(of.enter, of.enter_bias),
            leave=self._matrix(of.leave, of.leave_bias),
            **made,
        )

    def _make_room(self) -> None:
        """One buffer for packed matrices, scratch shared by all threads, and scratch of each thread."""
        loop, of = self.loop, self.of
        one = [loop.sublayer[n] for n in range(loop.sublayers)]
        matrices = [
            loop.near,
            *(m for s in one for m in (s.enter, s.leave)),
            *(loop.project[a] for a in range(loop.sets)),
        ]
        panels = sum(m.in_ * _whole(m.out, WIDE) for m in matrices)
        wide = loop.rows * max((of.weights[s.leave].shape[0] for s in of.plan.sublayers), default=0)
        made = loop.rows * (loop.streams * loop.dim + loop.sets * 2 * loop.groups * loop.size)
        distances = 0 if of.table is None else _whole(len(of.table), WIDE)
        keys = max([loop.capacity, *(s.source for s in one)])
        loop.vectors = max(loop.rows * loop.dim, loop.rows * loop.heads * distances, keys)
        loop.private = _whole(loop.vectors + loop.rows * _whole(max(m.in_ for m in matrices), DEEP), LINE)
        room = of.k.new_empty(LINE + panels + wide + made + loop.threads * loop.private)
        self.held.append(room)
        at = _whole(address(room), 4 * LINE)
        for m in matrices:
            m.panels = at
            at += 4 * m.in_ * _whole(m.out, WIDE)
        loop.wide, loop.made, loop.room = at, at + 4 * wide, at + 4 * (wide + made)


def _whole(count: int, unit: int) -> int:
    return -(-count // unit) * unit
