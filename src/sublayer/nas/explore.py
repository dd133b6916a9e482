"""The loop of a search: a method proposes candidates, they are evaluated or recalled, and the method learns of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from sublayer.nas import units
from sublayer.nas.evolution import TRIES, Method
from sublayer.nas.reporters import SearchProgress, SearchReporter
from sublayer.nas.space import Candidate, Space
from sublayer.nas.stages import Evaluator
from sublayer.nas.study import Journal, Recorded
from sublayer.nas.trial import Trial
from sublayer.nn.config import ConfigError

HOPELESS = 3, 200
"""Generations and trials without a candidate within the limits, after which the search gives up."""


def explore(
    method: Method,
    evaluator: Evaluator,
    total: int,
    journal: Journal | None = None,
    reporter: SearchReporter | None = None,
) -> SearchProgress:
    """Evaluate `total` candidates, or all there are; those in the journal are recalled, new ones are added to it."""
    known = {one.number: one for one in journal.trials()} if journal else {}
    progress = SearchProgress(total, evaluator.goals)
    while len(progress.trials) < total:
        start = len(progress.trials)
        candidates = method.ask(min(method.batch, total - start))
        if not candidates:
            progress.total = start  # the space has no more
            break
        evaluator.look_ahead([one.config for number, one in enumerate(candidates, start) if number not in known])
        for number, candidate in enumerate(candidates, start):
            if number in known:
                trial = recall(known[number], candidate)
                progress.recalled += 1
            else:
                trial = evaluator.evaluate(number, candidate)
                if journal:
                    journal.add(trial)
            progress.trials.append(trial)
            if reporter:
                reporter.progress(progress)
        method.tell(progress.trials[start:])
        progress.generations.append(len(progress.trials))
        if len(progress.generations) >= HOPELESS[0] and len(progress.trials) >= HOPELESS[1]:
            settle(progress, evaluator, infeasible_only=True)
    if not progress.trials:
        raise ConfigError(empty(method.space))
    settle(progress, evaluator)
    return progress


def settle(progress: SearchProgress, evaluator: Evaluator, *, infeasible_only: bool = False) -> None:
    """Judge the trials by the best figures that can be had now, and give up if none is within the limits."""
    if infeasible_only and any(trial.feasible for trial in progress.trials):
        return
    progress.trials = evaluator.settled(progress.trials)
    refuse_infeasible(progress.trials, evaluator.limits, evaluator.disturbed)


def recall(recorded: Recorded, candidate: Candidate) -> Trial:
    if recorded.hash != candidate.hash:
        raise ValueError(
            f"trial {recorded.number} of the journal is not the candidate that this version of sublayer proposes; "
            "search again in another folder"
        )
    return Trial(recorded.number, candidate, recorded.figures, recorded.excess)


def refuse_infeasible(trials: Sequence[Trial], limits: Mapping[str, float], disturbed: str | None = None) -> None:
    """Where no candidate is within the limits, name the nearest one, and what disturbed the figures."""
    if any(trial.feasible for trial in trials):
        return
    nearest = min(trials, key=lambda trial: trial.violation)
    beyond = [name for name, share in nearest.excess.items() if share > 0]
    has = ", ".join(f"{name} {units.write(name, nearest.figures[name])}" for name in beyond if name in nearest.figures)
    wanted = ", ".join(f"{name} up to {units.write(name, limits[name])}" for name in beyond if name in limits)
    remedy = "raise the limit, or search a space with smaller models"
    if disturbed and "latency" in beyond:
        remedy = (
            f"but these figures were measured on a busy machine ({disturbed}); stop other programs, then run the same "
            "command again, which measures them again"
        )
    raise ValueError(
        f"no candidate has {wanted or f'a finite {beyond[0]}'}: of {len(trials):,} tried, the nearest "
        f"({sketch(nearest)}) has {has or 'none'}; {remedy}"
    )


def sketch(trial: Trial) -> str:
    return f"layout {trial.candidate.layout}, dim {trial.candidate.config.dim}"


def empty(space: Space) -> str:
    """Why a space has no candidates."""
    try:
        space.config(space.sample(Random(0)))
        reason = "?"
    except ConfigError as error:
        reason = str(error)
    return f"the space is empty: {TRIES} draws gave no valid candidate; the first fails with {reason}"
