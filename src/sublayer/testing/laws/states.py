"""The state is a value: used once, forked, its rows reordered; and as large as its config counts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sublayer.nn.state import Growing, PartState, State
from sublayer.testing.case import SOURCE, Case
from sublayer.testing.laws.segments import NO_STATE
from sublayer.testing.verdict import PIECES, law, require, same, same_bits


@law("state is a value")
def state_is_a_value(case: Case) -> str | None:
    """A consumed state raises; forks do not touch each other."""
    if not case.config.remembers:
        return NO_STATE
    model, steps = case.model(), [case.ids(), case.ids(length=1, key=8), case.ids(length=2, key=9)]
    other = (steps[2] + 1) % case.config.vocab

    def read(forked: bool) -> Tensor:
        """Go on, past a fork that reads something else, into buffers that by now have room to spare."""
        state = case.begin(model)
        for ids in steps:
            fork = state.fork() if forked and state else None
            _, after = model(ids, state)
            if fork is not None:
                model(other, fork)
            state = after
        return model(steps[1], state)[0]

    with torch.no_grad():
        same(read(forked=True), read(forked=False), 1e-12, "state: what a fork reads shows in the other")
        state = model(steps[0], case.begin(model))[1]
        model(steps[1], state)
        require(_refused(model, steps[1], state), "state: a consumed state is taken again")
    return None


def _refused(model: Any, ids: Tensor, state: State) -> bool:
    try:
        model(ids, state)
    except ValueError:
        return True
    return False


@law("rows")
def rows(case: Case) -> str | None:
    """Rows of a state may be dropped, repeated and reordered: each goes on as before, the others bit by bit."""
    if not case.config.remembers:
        return NO_STATE
    model, first, more = case.model(), case.ids(batch=3, key=10), case.ids(length=2, batch=3, key=11)
    with torch.no_grad():
        state = model(first, case.begin(model, batch=3))[1]
        plain = model(more, state.fork())[0]
        for chosen in ((2, 0), (1, 1, 0, 2), (1,)):
            index = torch.tensor(chosen)
            again = model(more[index], state.select(index))[0]
            same(again, plain[index], 1e-10, f"rows: {chosen} of three")
        replaced = torch.tensor([0, 0, 2])
        again = model(more, state.select(replaced))[0]
        same_bits(again[[0, 2]], plain[[0, 2]], "rows: the rows beside one that was replaced")
        if not case.config.needs_source:
            _reset(case, model, state, more, plain)
    return None


def _reset(case: Case, model: Any, state: State, more: Tensor, plain: Tensor) -> None:
    """A row that begins anew goes on as one that has read nothing, those beside it as before."""
    try:
        reset = state.reset(torch.tensor([False, True, False]))
    except ValueError:
        return  # it says that it stores sums
    again = model(more, reset)[0]
    same(again[[0, 2]], plain[[0, 2]], 1e-10, "rows: the rows beside one that begins anew")
    same(again[1:2], case.read(model, more[1:2]), 1e-10, "rows: one that begins anew")


@law("state size", long=PIECES)
def state_size(case: Case) -> str | None:
    """The state holds as many numbers as the config counts, frozen and not; its buffers at most about twice that."""
    if not case.config.remembers:
        return NO_STATE
    model, config = case.model(torch.float32), case.config
    memory, length = case.ids(key=12).tensor_split([case.length - max(1, case.length // 3)], dim=1)
    varies = any(part.state_varies for stack in config.stacks.values() for part in stack.parts)
    source = SOURCE if config.needs_source else 0
    for frozen, past in ((False, 0), (False, memory.shape[1]), (True, memory.shape[1])):
        if frozen and not past:
            continue  # nothing to freeze
        counted = case.batch * config.state_size(length.shape[1], past, source, frozen=frozen)
        state = _after(case, model, memory[:, :past], length, frozen)
        what = f"state size: {past} tokens, {'frozen, ' if frozen else ''}then {length.shape[1]} more"
        fits = state.size <= counted if varies else state.size == counted
        require(fits, f"{what}: {state.size} numbers, {counted} by the config")
        with torch.no_grad():
            held = _room(_after(case, model, memory[:, :past], length, frozen).parts)
            per_token = config.state_size(1, 0, source, frozen=frozen) - config.state_size(0, 0, source, frozen=frozen)
            most = 2 * counted + 2 * 16 * case.batch * max(1, per_token)
            require(held <= 2 * most, f"{what}: buffers of {held} numbers for {counted} stored")
    return None


def _after(case: Case, model: Any, memory: Tensor, length: Tensor, frozen: bool) -> State:
    state = case.begin(model)
    if memory.shape[1]:
        state = model(memory, state)[1]
        state = model.frozen(state) if frozen else state
    return model(length, state)[1]


def _room(value: Any) -> int:
    """Numbers in the buffers of a state, room to spare included."""
    if isinstance(value, Growing):
        return value.buffer.numel()
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, PartState):
        return sum(_room(one) for one in vars(value).values())
    if isinstance(value, (tuple, list)):
        return sum(_room(one) for one in value)
    return sum(_room(one) for one in value.values()) if isinstance(value, dict) else 0
