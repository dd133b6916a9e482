"""The loop, from top to bottom.

Each step seeds dropout by (seed, step, process), so there is no generator whose state must be saved: a process that
resumes at a step draws what the one before it would have drawn.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sublayer.data import Batch, Data, Windows
from sublayer.data.permutation import mix
from sublayer.runs import Run
from sublayer.training import average, guard
from sublayer.training.budget import Budget, Stopwatch
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.reporters import ProgressReporter
from sublayer.training.trainee import Trainee
from sublayer.training.validation import validate


def train_on(
    trainee: Trainee, run: Run, config: TrainConfig, data: Data, world: World, watch: Stopwatch, tell: ProgressReporter
) -> str:
    """From where the trainee stands to the end of the budget; says why it ended."""
    progress, budget, schedule = trainee.progress, Budget(config, watch), config.schedule.build()
    recent = Recent()
    if world.agree(not run.checkpoints):
        trainee.save(run, world)
    saved = progress.step
    ended = world.agree(budget.over(progress))
    while not ended:
        spent = world.agree(budget.spent(progress)) if config.minutes else budget.spent(progress)
        rate = config.rate * schedule.rate(progress.step, config.warmup, spent)
        losses, norm = take_step(trainee, config, world, rate)
        recent.add(losses, norm)
        if not progress.first:  # a batch that asks for no answer has a loss of 0
            progress.first = world.mean(losses["loss"])
        tell.step(progress, budget)

        ended = world.agree(budget.over(progress)) if config.minutes else budget.over(progress)
        scores = bool(ended) or progress.step % config.evaluates_every == 0
        saves = bool(ended) or progress.step % config.saves_every == 0
        if scores or saves or progress.step % config.log_every == 0:
            line = {"step": progress.step, "tokens": progress.tokens, "rate": rate, **recent.means(world)}
            guard.check(line["loss"], line["norm"], progress, config, saved=saved)
            record(run, world, tell, line, watch, data)
        if scores and len(data.valid) > 1:
            score = validate(trainee, config, data, world)
            guard.check_score(score["loss"], progress, config, saved)
            progress.scored(score["loss"])
            line = {"step": progress.step, "tokens": progress.tokens} | {f"valid_{k}": v for k, v in score.items()}
            record(run, world, tell, line, watch, data)
            ended = ended or (world.agree(budget.over(progress)) if config.minutes else budget.over(progress))
        if saves or ended:
            trainee.save(run, world)
            saved = progress.step
            if world.main:
                average.keep(run, config, progress)
    if world.main:
        average.keep(run, config, progress)  # a process killed before it did leaves it to the next
        if config.average:
            average.write(run, config.average)
    world.wait()
    return ended


def take_step(trainee: Trainee, config: TrainConfig, world: World, rate: float) -> tuple[dict[str, Tensor], Tensor]:
    """One step of the optimiser: its losses by name, and the norm of its gradient before clipping."""
    progress, losses = trainee.progress, dict[str, Tensor]()
    torch.manual_seed(mix(config.seed, progress.step, world.rank))
    for group in trainee.optimizer.param_groups:
        group["lr"] = rate
    trainee.objective.train()
    for n in range(config.accumulate):
        batch = next_batch(trainee, config, world)
        with world.apart(trainee.objective) if n + 1 < config.accumulate else nullcontext():
            with torch.autocast(world.device.type, torch.bfloat16, enabled=config.precision == "bf16"):
                total, state, named = trainee.objective(batch, None if batch.fresh else trainee.state)
            (total / config.accumulate).backward()
        trainee.state = state if trainee.batches.carries else None
        losses = {name: losses.get(name, 0) + loss / config.accumulate for name, loss in named.items()}
        progress.tokens += batch.inputs_BL.numel() * world.size
    parameters = [p for p in trainee.model.parameters() if p.grad is not None]
    norm = torch.nn.utils.clip_grad_norm_(parameters, config.clip or torch.inf)
    trainee.optimizer.step()
    trainee.optimizer.zero_grad(set_to_none=True)
    progress.step += 1
    return losses, world.plain(norm)


def next_batch(trainee: Trainee, config: TrainConfig, world: World) -> Batch:
    """The next one, as long as rows are by now: lanes go on from there, others leave their ends unread."""
    batches = trainee.batches
    length = config.length_at(trainee.progress.step, batches.longest)
    if isinstance(batches, Windows):  # where the next ones are follows from the full length
        return next(batches).cut(length).to(world.device)
    batches.length = length
    return next(batches).to(world.device)


@dataclass
class Recent:
    """The steps since the last line."""

    losses: list[dict[str, Tensor]] = field(default_factory=list)
    norms: list[Tensor] = field(default_factory=list)

    def add(self, losses: dict[str, Tensor], norm: Tensor) -> None:
        self.losses.append(losses)
        self.norms.append(norm)

    def means(self, world: World) -> dict[str, float]:
        """Of each loss by name, and of the gradient's norm; then it begins anew."""
        names = sorted({name for losses in self.losses for name in losses})  # all processes exchange in one order
        found = {name: [losses[name] for losses in self.losses if name in losses] for name in names}
        means = {name: world.mean(torch.stack(values).double().mean()) for name, values in found.items()}
        norm = float(torch.stack(self.norms).double().mean())
        self.losses, self.norms = [], []
        return {**means, "norm": norm}


def record(run: Run, world: World, tell: ProgressReporter, line: dict[str, Any], watch: Stopwatch, data: Data) -> None:
    """A line of metrics, and one of the clock beside it."""
    if world.main:
        run.metrics.add(line)
        run.clock.add({"step": line["step"], "seconds": round(watch.seconds, 3)})
        tell.line(line, data)
