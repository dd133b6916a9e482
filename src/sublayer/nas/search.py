"""Search: candidates from a method, judged one by one, kept in a journal; at the end the front, measured again.

A search that was killed is asked for again: the method proposes the same candidates, those that the journal has are
answered from it, and the rest is judged. No trial is lost or done twice, and the front is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from sublayer.nas import methods
from sublayer.nas.evolution import Method
from sublayer.nas.explore import Ahead, Progress, Tell, explore
from sublayer.nas.folder import Folder
from sublayer.nas.result import describe, measured
from sublayer.nas.smallest import refuse_too_small, smallest
from sublayer.nas.space import Space
from sublayer.nas.study import Journal
from sublayer.nas.trial import Judge, Objective, Stage, counted, read_limits, read_objectives
from sublayer.nn.model import Model

DEFAULT = "decoder_params,latency,memory"
STUDY = "search"


def search(
    space: Space,
    evaluate: Stage | Sequence[Stage],
    out: Path | str,
    *,
    objectives: str | Sequence[str | Objective] = DEFAULT,
    limits: Mapping[str, str | float | None] | None = None,
    method: str = "evolution",
    seed: int = 0,
    population: int = 100,
    iterations: int = 30,
    length: int = 64,
    memory: int | None = None,
    notes: Mapping[str, Any] | None = None,
    remeasure: Callable[[Model.Config], Any] | None = None,
    tell: Tell = lambda progress: None,
    ahead: Ahead = lambda configs: None,
    prepare: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Search a space and write the front to a folder; what front.json holds is returned.

    evaluate: config → figures, such as latency in seconds and memory in bytes; several are called in turn, the cheapest
    first, as long as a candidate is within its limits. limits: {"latency": "5ms", "params": 1e7}. length, memory: the
    tokens that FLOPs are counted for. notes: what else makes the search what it is (device, setting), written down
    with it. remeasure: config → a reading with latency, low, high and memory, for models of the front. ahead: hears
    which configs are evaluated next, for what is better done for many at once. prepare: what takes long, done when
    nothing is wrong with the request.
    """
    wanted, most = read_objectives(objectives), read_limits(limits or {})
    trials = total(population, iterations)
    asked = {
        "space": space.dump(),
        "objectives": [objective.dump() for objective in wanted],
        "limits": most,
        "method": method,
        "seed": seed,
        "population": population,
        "iterations": iterations,
        "counted": {"length": length, "memory": memory},
        **(notes or {}),
    }
    stages = [counted(length, memory), *([evaluate] if callable(evaluate) else evaluate)]
    judge = Judge(stages, wanted, most)
    folder = Folder(Path(out))
    chosen = make(method, space, wanted, most, seed, population)
    with folder.held():
        folder.ask(asked)
        prepare()
        journal = Journal(folder.journal, STUDY, space, wanted)
        progress = Progress(trials, wanted)
        explore(chosen, judge, progress, journal.trials(), journal.add, tell, ahead)
        return measured(folder, describe(progress, most, notes or {}), remeasure)


def total(population: int, iterations: int) -> int:
    """How many candidates evolution looks at; other methods look at as many."""
    if population < 5 or iterations < 0:
        raise ValueError(f"population={population}, iterations={iterations}: expected at least 5, and 0 or more")
    return population + iterations * 2 * round(0.4 * population)


def make(
    method: str, space: Space, objectives: Sequence[Objective], limits: Mapping[str, float], seed: int, population: int
) -> Method:
    """A method at its beginning; under limits it looks at the smallest candidate first, from which small ones come."""
    kind = methods.find(method)
    first = []
    if limits:
        least = smallest(space, Random(seed))
        refuse_too_small(least, limits)
        first = [least.genes]
    return kind(space, objectives, seed, population, first)
