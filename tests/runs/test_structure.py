"""A carried state survives being named tensors and plain JSON: what follows it is the same to the bit."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

import sublayer
from sublayer.nn.model import Model
from sublayer.nn.state import Constant, Growing, PartState, State
from sublayer.runs.structure import put_together, take_apart
from sublayer.testing import Case, small


def through_files(state):
    description, tensors = take_apart(state)
    return put_together(json.loads(json.dumps(description)), load(save(tensors)))


REMEMBER = [name for name in sublayer.names() if sublayer.config(name).remembers]
OTHERWISE = [(name, padded, False) for name in ("transformer", "gpt2", "transformer-xl") for padded in (True, False)]


@pytest.mark.parametrize(("paper", "padded", "grad"), [*((name, False, True) for name in REMEMBER), *OTHERWISE])
def test_every_paper_goes_on_as_if_nothing_had_happened(paper, padded, grad):
    trial = Case(small(sublayer.config(paper)))
    model = trial.model(torch.float32)
    valid = torch.ones(2, 7, dtype=torch.bool)
    valid[1, :3] = not padded
    with torch.set_grad_enabled(grad):
        _, state = model(trial.ids(7), trial.begin(model), valid if padded else None)
        state = state.detach()
        restored = through_files(state)
        check_same(restored, state)
        here, restored = model(trial.ids(3), restored)
        there, state = model(trial.ids(3), state)
    torch.testing.assert_close(here, there, rtol=0, atol=1e-6)
    check_same(restored.detach(), state.detach())  # a reversible stack makes its states when they are asked for


def test_frozen_memories_too():
    trial = Case(small(sublayer.config("transformer-xl")))
    model: Any = trial.model(torch.float32)
    with torch.no_grad():
        frozen = model.frozen(model(trial.ids(7))[1])
        check_same(through_files(frozen), frozen)


@dataclass(frozen=True)
class Odd(PartState):
    """What a plug-in may remember."""

    table: dict[str, Any]
    heap: list[Any]
    pair: tuple[Any, ...]
    kept: Constant
    name: str | None = None


def test_what_a_plug_in_may_remember():
    odd = Odd(
        {"a": torch.ones(2), "b": {"c": 1.5}}, [torch.zeros(3), None, True], (), Constant(torch.arange(4)), "naïve"
    )
    state = State((None, odd), start=3, next_B=torch.tensor([3, 2]))
    found = through_files(state)
    check_same(found, state)
    assert isinstance(found.parts[1], Odd)
    assert (found.parts[1].name, found.parts[1].table["b"], found.parts[1].heap[1:]) == (
        "naïve",
        {"c": 1.5},
        [None, True],
    )


def test_a_memory_that_is_not_known_here():
    description, tensors = take_apart(State((Odd({}, [], (), Constant(torch.ones(1))),)))
    description["parts"]["items"][0]["memory"] = "Strange"
    with pytest.raises(ValueError, match="no memory 'Strange' is known here; load its plug-in"):
        put_together(description, tensors)


def check_same(here, there):
    """In structure, in types and in every number."""
    assert type(here) is type(there)
    if isinstance(here, torch.Tensor):
        assert here.dtype == there.dtype
        torch.testing.assert_close(here, there, rtol=0, atol=1e-6)
    elif isinstance(here, Growing):
        assert (len(here), here.axis) == (len(there), there.axis)
        check_same(here.value, there.value)
    elif isinstance(here, (tuple, list)):
        assert len(here) == len(there)
        for one, other in zip(here, there, strict=True):
            check_same(one, other)
    elif isinstance(here, dict):
        assert here.keys() == there.keys()
        for key in here:
            check_same(here[key], there[key])
    elif isinstance(here, (State, PartState, Constant)):
        check_same(vars(here), vars(there))
    else:
        assert here == there


def test_a_state_is_plain_json_and_tensors():
    model: Model = small(sublayer.config("transformer-xl")).build()
    description, tensors = take_apart(model(torch.ones(2, 3, dtype=torch.long))[1].detach())
    assert json.loads(json.dumps(description)) == description
    assert "parts.0.x" in tensors
