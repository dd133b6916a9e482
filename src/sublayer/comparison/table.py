"""The table: a row for each variant, and each against the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from sublayer.comparison.interval import Interval, SeedInterval, verdict
from sublayer.comparison.records import (
    INTERVALS,
    ComparisonRow,
    ComparisonTable,
    Difference,
    HeldOutIntervals,
    HeldOutScore,
    Latency,
    MeasuredModel,
    StepMemory,
)
from sublayer.comparison.request import ComparisonRequest, ResolvedVariant, predicts_text
from sublayer.comparison.result import SeedResult
from sublayer.comparison.width import apart
from sublayer.runs.environment import environment

Results = Mapping[int, SeedResult]
"""Of one variant, by seed."""
ScoreTest = Callable[[SeedResult], HeldOutScore | None]


def tabulate(
    request: ComparisonRequest,
    results: Sequence[Results],
    score_test: ScoreTest,
    measured: Sequence[MeasuredModel | None],
    steps: Sequence[StepMemory | None],
) -> ComparisonTable:
    """measured: latency and memory, one for each variant, or None. steps: memory of training, likewise."""
    variants = zip(request.variants, results, measured, steps, strict=True)
    return ComparisonTable(
        how=INTERVALS,
        baseline=request.variants[0].name,
        rows=[
            row(request, variant, own, score_test, reading, step, against(own, results[0]) if n else None)
            for n, (variant, own, reading, step) in enumerate(variants)
        ],
        asked=request.dump(),
        device=environment(),
    )


def row(
    request: ComparisonRequest,
    variant: ResolvedVariant,
    results: Results,
    score_test: ScoreTest,
    measured: MeasuredModel | None,
    step: StepMemory | None,
    difference: Difference | None,
) -> ComparisonRow:
    cost, own = variant.model.cost(), list(results.values())
    losses = [result.loss for result in own]
    mean = Interval.of([loss for loss in losses if loss is not None])
    writes = predicts_text(variant.model)
    speeds = [result.speed for result in own if result.speed is not None]
    return ComparisonRow(
        name=variant.name,
        slug=variant.slug,
        layout=" → ".join(stack.layout for stack in variant.model.stacks.values()),
        config=variant.model.dump(),
        params=cost.params,
        decoder_params=cost.decoder_params,
        params_off=None if request.equal_params is None else apart(variant.model, request.equal_params),
        lr=own[0].run.asked["train"]["lr"],
        seeds=list(results),
        runs=[f"runs/{result.run.path.name}" for result in own],
        losses=losses,
        **(dict(mean) if mean else {}),
        best=SeedInterval.by_seed([result.best for result in own]),
        perplexity=mean.map(math.exp) if mean and writes else None,
        bits_per_byte=SeedInterval.by_seed([result.bits_per_byte for result in own]),
        bits_per_dim=SeedInterval.by_seed([result.bits_per_dim for result in own]),
        accuracy=SeedInterval.by_seed([result.accuracy for result in own]),
        sequence_accuracy=SeedInterval.by_seed([result.sequence_accuracy for result in own]),
        diverged={str(seed): result.diverged for seed, result in results.items() if result.diverged},
        tokens=max(result.tokens for result in own),
        minutes=sum(result.seconds for result in own) / 60,
        tokens_per_second=median(speeds) if speeds else None,
        test=tested([None if result.diverged else score_test(result) for result in own]),
        latency=None if measured is None else Latency(**dict(measured)),
        memory=None if measured is None else measured.memory,
        step_memory=None if step is None else step.memory,
        difference=difference,
    )


def tested(scores: Sequence[HeldOutScore | None]) -> HeldOutIntervals | None:
    """None where no seed was scored."""
    by_unit = {
        unit: SeedInterval.by_seed([None if one is None else getattr(one, unit) for one in scores])
        for unit in HeldOutIntervals.model_fields
    }
    return HeldOutIntervals(**by_unit) if any(by_unit.values()) else None


def against(results: Results, first: Results) -> Difference:
    """Losses less those of the first variant, on the seeds that finished with both."""
    pairs = [(results[seed].loss, first[seed].loss) for seed in results]
    found = Interval.of([ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None])
    lost = [str(seed) for seed, result in results.items() if result.diverged]
    words = f"diverged with seed {', '.join(lost)}" if lost else verdict(found)
    return Difference(**(dict(found) if found else {}), verdict=words)
