"""A single query reads the keys that its pattern lists, and nothing is stored that no later query sees."""

import random
from collections.abc import Sequence
from typing import TypeVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import sublayer
from sublayer.generation.native import NativeReader
from sublayer.generation.reader import path, read_prompts
from sublayer.generation.request import GenerationRequest
from sublayer.nn.attention import Pattern, Window
from sublayer.nn.attention.one_query import kinds_of
from sublayer.nn.attention.pattern import Causal, Global, Union
from sublayer.nn.part import Slot, Work
from sublayer.nn.position import Rotary
from sublayer.nn.scene import Scene
from sublayer.nn.state import PartState
from sublayer.testing import Case, small
from sublayer.testing.case import LawBroken, same
from sublayer.testing.verdict import LAWS
from tests.generation.models import side_by_side
from tests.nn.attention.test_patterns import BACK, HEADS, attention

T = TypeVar("T")
SUMMARIES = Union.Config(
    members=(Window.Config(size=5), Causal.Config(of=Global.Config(first=3, every=7, see_all=False)))
)
PATTERNS = {**BACK, "window and summaries": SUMMARIES}


def shared(several: Sequence[T]) -> list[tuple[str, T]]:
    """Each pattern with every other of these, so that neighbouring patterns try all between them."""
    return [(name, one) for n, name in enumerate(PATTERNS) for one in several[n % 2 :: 2]]


BOUNDED = ["window", "dilated", "block_local", "block_local_2d", "global", "longformer"]


@pytest.mark.parametrize("name", PATTERNS)
def test_ranges_are_the_predicate(name):
    for kind in kinds_of(PATTERNS[name], HEADS):
        for i in (*range(60), 299, 300, 301):
            listed = torch.zeros(i + 1, dtype=torch.long)
            for one in kind.ranges(i):
                listed[one.start : one.stop : one.step] += 1
            assert torch.equal(listed, kind.sees(torch.tensor(i), torch.arange(i + 1)).expand(i + 1).long()), i


@given(st.sampled_from([*PATTERNS]), st.integers(1, 200))
def test_what_a_later_query_sees_is_stored(name, tokens):
    pattern, i, j = PATTERNS[name], torch.arange(tokens, tokens + 130), torch.arange(tokens)
    seen = torch.stack([kind.sees(i[:, None], j) for kind in kinds_of(pattern, HEADS)]).flatten(0, 1).any(0)
    stored = pattern.lasts(j) | (j >= (0 if pattern.recent is None else tokens - pattern.recent))
    assert not (seen & ~stored).any()
    assert stored.sum() == pattern.stored(tokens)
    assert pattern.lasting is None or pattern.lasts(j).sum() <= pattern.lasting


def case(pattern, seed=0, layout="ss", **changes):
    config = small(sublayer.config("gpt2", layout=layout, position="rotary")).but(
        {"s.pattern": pattern, "s.heads": HEADS, **changes}
    )
    return Case(config, seed)


@pytest.mark.parametrize(("name", "position"), shared(["rotary", "alibi", "shaw"]))
def test_token_by_token_is_one_pass(name, position):
    """Beyond several windows, with and without a gradient; forks and rows in another order go on alike."""
    trial = case(PATTERNS[name], position=position)
    model, ids = trial.model(), trial.ids(90)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            whole, (found, state) = model(ids)[0], model(ids[:, :31])
            found = [found]
            for n in range(31, 70):
                h_BLD, state = model(ids[:, n : n + 1], state)
                found.append(h_BLD)
            same(torch.cat(found, dim=1), whole[:, :70], 1e-10, f"{name}, grad {grad}")
            fork, rows = state.fork(), torch.tensor([1, 1, 0])
            swapped = fork.select(rows)
            for n, m in ((70, 71), (71, 83), (83, 84), (84, 85)):
                there, swapped = model(ids[rows, n:m], swapped)
                here, state = model(ids[:, n:m], state)
                same(here, whole[:, n:m], 1e-10, f"{name}, the state itself")
                same(there, whole[rows, n:m], 1e-10, f"{name}, rows of a fork")


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("position", ["none", "alibi"])
def test_padded_rows_go_on_as_they_do_alone(name, position):
    """Padding before the text, and in the middle of it; positions of rows then differ."""
    trial = case(PATTERNS[name], position=position)
    model, ids = trial.model(), trial.ids(64, batch=3)
    valid = torch.ones(3, 40, dtype=torch.bool)
    valid[1, :11] = False
    valid[2, 20:33] = False
    with torch.no_grad():
        alone = [
            model(torch.cat([ids[n : n + 1, :40][:, valid[n]], ids[n : n + 1, 40:]], dim=1))[0][0, -24:]
            for n in range(3)
        ]
        _, state = model(ids[:, :40], None, valid)
        for n in range(40, 64):
            h_BLD, state = model(ids[:, n : n + 1], state)
            same(h_BLD[:, 0], torch.stack([one[n - 40] for one in alone]), 1e-10, f"{name}, token {n}")


def bytes_held(value):
    """Of the buffers that a state keeps alive."""
    if isinstance(value, torch.Tensor):
        return value.untyped_storage().nbytes()
    if hasattr(value, "buffer"):
        return bytes_held(value.buffer)
    if isinstance(value, PartState):
        return sum(bytes_held(one) for one in vars(value).values())
    return sum(map(bytes_held, value)) if isinstance(value, tuple) else 0


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("prompt", [1, 200])
def test_a_state_is_as_large_as_counted_at_every_length(name, prompt):
    trial = case(PATTERNS[name], layout="s")
    model, ids = trial.model(), trial.ids(300)
    with torch.no_grad():
        _, state = model(ids[:, :prompt])
        for n in range(prompt, 300):
            assert state.size == trial.batch * trial.config.state_size(n)
            held = bytes_held(state.parts) / 8  # in fp64
            # Which tokens outlast is stored beside them: a number each.
            assert held <= (3 * state.size + n if n == prompt else 2 * state.size + 40 * 2 * 2 * 32), n
            _, state = model(ids[:, n : n + 1], state)
    bounded = trial.config.state_size(100_000) == trial.config.state_size(10_000)
    assert bounded == (name in BOUNDED) == trial.config.bounded


@pytest.mark.parametrize("name", PATTERNS)
def test_work_for_one_token_is_counted_right(name):
    pattern, slot = PATTERNS[name], Slot(16, Rotary.Config())
    part, x_BLD, state = attention(pattern), torch.randn(1, 130, 16, dtype=torch.float64), None
    with torch.no_grad():
        for t in range(130):
            # On a CPU the counter sees only the products of PyTorch's plain attention.
            with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
                _, state = part(x_BLD[:, t : t + 1], Scene(torch.tensor([[t]]), start=t), state)
            assert counter.get_total_flops() == part.config.flops(slot, Work(1, t)), t
    if name in BOUNDED:  # 72 is a multiple of every period in use: of blocks, of rows of an image
        assert part.config.flops(slot, Work(1, 1000 + 72 * 83)) == part.config.flops(slot, Work(1, 1000))
    if name == "strided":
        assert sum(map(len, pattern.ranges(7000))) == 7 + 1001 - 1  # its own token is in both


POSITIONS = ["none", "rotary", "alibi", {"kind": "relative_key", "clip": 20}]


@pytest.mark.parametrize(("name", "seed"), shared(range(4)))
def test_the_step_in_c_equals_the_model(name, seed):
    """Over several windows, with prompts of one length and of several, and rows that come and go."""
    trial, dice = case(PATTERNS[name], seed, "(sf)x2", position=POSITIONS[seed]), random.Random(seed)
    lengths = [41] * 3 if seed % 2 else [41, 3, 30]
    prompts = [[dice.randrange(61) for _ in range(length)] for length in lengths]
    side_by_side(trial.model(torch.float32), prompts, dice, steps=60)


@pytest.mark.parametrize("name", ["window", "fixed", "longformer"])
def test_the_step_in_c_with_a_memory_of_its_own_bound(name):
    changes = {"s.memory": {"kind": "segment", "length": 12}, "position": {"kind": "relative_xl"}}
    side_by_side(case(PATTERNS[name], **changes).model(torch.float32), [[1, 2, 3] * 9], random.Random(0), steps=50)


@pytest.mark.parametrize("name", BOUNDED)
@torch.inference_mode()
def test_the_step_in_c_holds_no_more_than_twice_what_it_needs(name):
    trial = case(PATTERNS[name], layout="s")
    reader = read_prompts(GenerationRequest.of(trial.model(torch.float32), [[1, 2, 3]], 400), True)
    assert isinstance(reader, NativeReader)
    for n in range(400):
        reader.read(torch.tensor([n % 61]))
    assert reader.step.state_bytes <= 4 * max(2 * trial.config.state_size(400) + 2 * 2 * 32, 16 * 2 * 32)


class Unlisted(Pattern):
    """A pattern that only says who sees whom."""

    class Config(Pattern.Config, tag="unlisted"):
        @property
        def causal(self):
            return True

        def allows(self, i, j):
            return (i - j < 3) | (j % 5 == 0)


def test_a_pattern_that_lists_nothing_is_right_if_slower():
    trial = case(Unlisted.Config())
    for law in ("segmentation", "generation", "state size", "rows", "padding", "cost = count"):
        assert LAWS[law](trial).holds, law
    model = trial.model(torch.float32)
    assert "does not list the keys of one query" in str(path(model).why_not)
    part = model.stack.sublayers[0].part
    assert "does not list the keys of one query" in str(part.path("generation").why_not)


def test_show_names_the_path():
    part = case(PATTERNS["fixed"]).model(torch.float32).stack.sublayers[0].part
    assert part.path("generation").path == "keys of one query (PyTorch)"


@pytest.mark.parametrize(
    "bug",
    [
        (Window.Config, "reach", property(lambda self: self.size - 2)),
        (Global.Config, "lasts", lambda self, j: j < self.first - 1),
        (Window.Config, "ranges", lambda self, i: (range(max(0, i - self.size), i + 1),)),
        (Global.Config, "ranges", lambda self, i: (range(1, min(self.first, i + 1)),)),
    ],
    ids=["forgets the last of a window", "forgets a global token", "reads one more", "reads one fewer"],
)
def test_planted_bugs(bug, monkeypatch):
    monkeypatch.setattr(*bug)
    # Of its own sizes, so that no cache of patterns made before knows it.
    members = (Window.Config(size=6, look="back"), Causal.Config(of=Global.Config(first=4)))
    trial = case(Union.Config(members=members))
    trial = Case(trial.config, cuts=(3, 1, 15, 2))
    broken = 0
    for law in ("segmentation", "generation", "pattern"):
        try:
            LAWS[law](trial)
        except (LawBroken, RuntimeError):
            broken += 1
    assert broken > 1, "both what is computed and what is said of it"
