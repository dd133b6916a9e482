"""A text read in segments: any split equals one pass, frozen or not; an empty memory is no memory."""

from __future__ import annotations

import torch

from sublayer.nn.state import State
from sublayer.testing.case import Case
from sublayer.testing.verdict import PIECES, law, same

NO_STATE = "it carries no state"
BOTH = ((torch.float64, 1e-10), (torch.float32, 1e-5))
"""Tolerances by precision."""


@law("segmentation", long=PIECES)
def segmentation(case: Case) -> str | None:
    """Any split into segments equals one pass; where the mathematics depends on the split, the pass it states."""
    if not case.config.remembers or case.forgets:
        return case.forgets or NO_STATE
    for dtype, tolerance in BOTH:
        model, ids = case.model(dtype), case.ids()
        for cuts in (case.cuts,) if case.long else (case.cuts, (1,) * case.length):
            for grad in (False, True):  # buffers written in place, and functional appending
                with torch.set_grad_enabled(grad):
                    whole = case.read(model, ids, **case.as_cut(cuts))
                    parts = case.read_in_segments(model, ids, cuts)
                same(parts, whole, tolerance, f"segmentation: cuts {cuts} in {dtype}, grad {'on' if grad else 'off'}")
    return None


@law("frozen memory", long=PIECES)
def frozen_memory(case: Case) -> str | None:
    """A state frozen for inference gives what the state itself gives."""
    if not case.config.remembers:
        return NO_STATE
    model, first, second = case.model(), case.ids(key=1), case.ids(length=1, key=2)
    with torch.no_grad():
        state = model(first, case.begin(model))[1]
        if state is None:
            return NO_STATE
        frozen = model.frozen(state.fork())
        if not _changed(state, frozen):
            return "freezing changes nothing"
        for ids in (second, case.ids(length=5, key=3), second):
            hidden, state = model(ids, state)
            again, frozen = model(ids, frozen)
            same(again, hidden, 1e-10, "frozen memory: the frozen state against the state itself")
    return None


def _changed(state: State, frozen: State) -> bool:
    """Whether freezing made other tensors of what is stored."""
    if state.size != frozen.size:
        return True
    here, there = _flat(state), _flat(frozen)
    return any(a.shape != b.shape or not torch.equal(a, b) for a, b in zip(here, there, strict=True))


def _flat(state: State) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    state.map(lambda x: found.append(x) or x)
    return found


@law("empty memory")
def empty_memory(case: Case) -> str | None:
    """An empty memory is no memory; one that is all padding changes nothing."""
    if not case.config.remembers:
        return NO_STATE
    model, ids = case.model(), case.ids()
    nothing = case.ids(length=3, key=1)
    with torch.no_grad():
        alone = case.read(model, ids)
        if not case.config.needs_source:
            same(model(ids, State(()))[0], alone, 1e-12, "empty memory: an empty state against none")
        _, masked = model(nothing, case.begin(model), torch.zeros_like(nothing, dtype=torch.bool))
        same(model(ids, masked)[0], alone, 1e-10, "empty memory: a memory that is all padding")
    return None
