"""Killed at any moment and resumed, a run comes to the same bits: weights, optimiser, state, metrics, text.

SUBLAYER_KILLS is the number of kills (12 by default); `make stress` kills 100 times.
"""

import os
import random
from pathlib import Path

import pytest

import sublayer
from sublayer.runs import Run
from tests.training import tiny
from tests.training.killing import live

KILLS = int(os.environ.get("SUBLAYER_KILLS", "12"))
OFTEN = {"train__steps": 6, "train__save_every": 2, "train__eval_every": 3, "train__log_every": 1}
TOKENS = {"train__steps": None, "train__tokens": 300, "train__save_every": 2, "train__eval_every": 2}
SLIDING = {"position": "rotary", "s.pattern": "window", "s.pattern.size": 8, "train__carry": True}
KINDS = {
    "gpt2": ("gpt2", {**OFTEN, "train__accumulate": 2, "train__average": 2}),
    "xl": ("transformer-xl", {**OFTEN, "train__accumulate": 2}),
    "gpt2, tokens": ("gpt2", {**TOKENS, "train__accumulate": 2, "train__optimizer": "lamb"}),
    "xl, tokens": ("transformer-xl", {**TOKENS, "train__accumulate": 2, "train__keep": 1, "train__grow_from": 4}),
    "carried keys": ("gpt2", {**OFTEN, **SLIDING, "train__optimizer": "sgd"}),
    "redrawn features": ("performer", {**OFTEN, "s.kernel.redraw": 2, "s.kernel.features": 32, "train__average": 2}),
    "bert": ("bert-base", {**OFTEN, "train__patience": 1, "train__precision": "bf16"}),
}


@pytest.fixture(scope="module")
def whole(book, tmp_path_factory):
    """`whole("xl")` → a run that nobody disturbed: its folder, and the life of its process."""
    known = {}

    def whole(kind):
        if kind not in known:
            folder = tmp_path_factory.mktemp("whole")
            # Once here, so that its children need not import, compile and cache each for itself.
            work(kind, book, folder / "warm")()
            known[kind] = folder / "run", live(work(kind, book, folder / "run"), folder)
        return known[kind]

    return whole


def work(kind, book, out):
    """What a user does: train; after that, resume."""
    paper, changes = KINDS[kind]

    def work():
        if (out / "run.json").exists():
            sublayer.resume(out, quiet=True)
        else:
            tiny.train(book, out, paper, **changes)

    return work


@pytest.mark.parametrize("number", range(max(KILLS // 2, len(KINDS))))
def test_a_killed_run_goes_on_to_the_same_bits(number, whole, book, tmp_path):
    chance, kind = random.Random(number), list(KINDS)[number % len(KINDS)]
    expected, life = whole(kind)
    out = tmp_path / "run"
    # The end is worth a look of its own: the last things done are nobody's to do again.
    first = chance.choice([1, life.events - 25])
    assert live(work(kind, book, out), out, event=chance.randint(first, life.events)) is None
    # The second kill finds less to do: it comes soon after the start, or anywhere in the first half of a life.
    soon, later = {"event": chance.randint(1, 20)}, {"seconds": chance.uniform(0, life.seconds / 2)}
    live(work(kind, book, out), out, **chance.choice([soon, later]))
    assert live(work(kind, book, out), out)
    same(out, expected)


def same(here: Path, there: Path) -> None:
    found, expected = tiny.files(here), tiny.files(there)
    assert list(found) == list(expected)
    assert [name for name in expected if found[name] != expected[name]] == []
    assert list(Run.open(here).clock)
    if sublayer.load(here).model.config.remembers:
        here_says, there_says = (sublayer.load(out).generate("line", tokens=12, seed=1) for out in (here, there))
        assert here_says == there_says


@pytest.mark.parametrize("kind", ["gpt2", "xl"])
def test_one_seed_one_run(kind, whole, book, tmp_path):
    paper, changes = KINDS[kind]
    for seed, out in ((0, tmp_path / "same"), (1, tmp_path / "other")):
        assert live(lambda out=out, seed=seed: tiny.train(book, out, paper, **changes, train__seed=seed), out)
    expected = tiny.files(whole(kind)[0])
    assert tiny.files(tmp_path / "same") == expected
    other = tiny.files(tmp_path / "other")
    assert list(other) == list(expected)
    weights = [name for name in expected if name.endswith("model.safetensors")]
    assert weights
    assert all(other[name] != expected[name] for name in [*weights, "metrics.jsonl"])
