"""The loop of a search: a method asks for candidates, they are judged or recalled, and it is told what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from sublayer.nas import units
from sublayer.nas.evolution import TRIES, Method
from sublayer.nas.space import Candidate, Space
from sublayer.nas.study import Recorded
from sublayer.nas.trial import Judge, Objective, Trial
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model

BARREN = 3, 200
"""Generations and trials without a candidate within the limits, after which there is none."""


@dataclass
class Progress:
    """What a search tells on its way."""

    of: int
    objectives: tuple[Objective, ...]
    trials: list[Trial] = field(default_factory=list)
    generations: list[int] = field(default_factory=list)
    """How many trials there were after each."""
    recalled: int = 0
    """Trials that the journal had already."""


Tell: TypeAlias = "Callable[[Progress], None]"
Ahead: TypeAlias = "Callable[[list[Model.Config]], None]"


def explore(
    method: Method,
    judge: Judge,
    progress: Progress,
    recorded: Iterable[Recorded] = (),
    add: Callable[[Trial], None] = lambda trial: None,
    tell: Tell = lambda progress: None,
    ahead: Ahead = lambda configs: None,
) -> None:
    """Until there are enough trials, or no more candidates. `ahead` hears which are judged next."""
    known = {one.number: one for one in recorded}
    while len(progress.trials) < progress.of:
        asked = method.ask(min(method.batch, progress.of - len(progress.trials)))
        if not asked:
            break
        start = len(progress.trials)
        ahead([candidate.config for n, candidate in enumerate(asked, start) if n not in known])
        for candidate in asked:
            number = len(progress.trials)
            if number in known:
                trial = recall(known[number], candidate)
                progress.recalled += 1
            else:
                trial = judge(number, candidate)
                add(trial)
            progress.trials.append(trial)
            tell(progress)
        method.tell(progress.trials[-len(asked) :])
        progress.generations.append(len(progress.trials))
        if len(progress.generations) >= BARREN[0] and len(progress.trials) >= BARREN[1]:
            refuse_barren(progress.trials, judge.limits)
    if not progress.trials:
        raise ConfigError(empty(method.space))
    refuse_barren(progress.trials, judge.limits)


def recall(recorded: Recorded, candidate: Candidate) -> Trial:
    if recorded.hash != candidate.hash:
        raise ValueError(
            f"trial {recorded.number} of the journal is not the candidate that this version of sublayer proposes; "
            "search again in another folder"
        )
    return Trial(recorded.number, candidate, recorded.figures, recorded.excess)


def refuse_barren(trials: Sequence[Trial], limits: Mapping[str, float]) -> None:
    """Nothing within the limits: say how near it came."""
    if any(trial.feasible for trial in trials):
        return
    nearest = min(trials, key=lambda trial: trial.violation)
    beyond = [name for name, share in nearest.excess.items() if share > 0]
    has = ", ".join(f"{name} {units.write(name, nearest.figures[name])}" for name in beyond if name in nearest.figures)
    wanted = ", ".join(f"{name} up to {units.write(name, limits[name])}" for name in beyond if name in limits)
    raise ValueError(
        f"no candidate has {wanted or f'a finite {beyond[0]}'}: of {len(trials):,} tried, the nearest "
        f"({sketch(nearest)}) has {has or 'none'}; raise the limit, or search a space with smaller models"
    )


def sketch(trial: Trial) -> str:
    config = trial.candidate.config
    return f"layout {' → '.join(stack.layout for stack in config.stacks.values())}, dim {config.dim}"


def empty(space: Space) -> str:
    """Why a space has no candidates."""
    try:
        space.config(space.sample(Random(0)))
        reason = "?"
    except ConfigError as error:
        reason = str(error)
    return f"the space is empty: {TRIES} draws gave no valid candidate; the first fails with {reason}"
