"""The loop, from top to bottom.

Each step seeds dropout by (seed, step, process), so there is no generator whose state must be saved: a process that
resumes at a step draws what the one before it would have drawn.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sublayer.data import Batch, Data
from sublayer.data.permutation import mix
from sublayer.nn.stepping import after_step
from sublayer.runs import Progress, Run
from sublayer.runs.metrics import MetricsLine, TrainLine
from sublayer.training import average, guard
from sublayer.training.budget import Budget, Stopwatch
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.reporters import ProgressReporter
from sublayer.training.trainee import Trainee
from sublayer.training.validation import validate


def train_on(
    trainee: Trainee, run: Run, data: Data, world: World, watch: Stopwatch, reporter: ProgressReporter
) -> str | None:
    """From where the trainee stands to the end of its stage; returns why all training ended, or None if it did not."""
    stage, progress = trainee.stage, trainee.progress
    config = stage.config
    budget, schedule = Budget(config, watch), config.schedule.build()
    recent = Recent()
    if world.agree(not run.checkpoints):
        trainee.save(run, world)
    saved = progress.step
    ended = world.agree(budget.over(progress))
    while not ended and not stage.over(progress.step):
        spent = world.agree(budget.spent(progress)) if config.minutes else budget.spent(progress)
        rate = config.rate * schedule.rate(progress.step, config.warmup, spent) * stage.warm(progress.step)
        losses, norm = take_step(trainee, config, world, rate)
        recent.add(losses, norm)
        if not progress.first:  # a batch that asks for no answer has a loss of 0
            progress.first = world.mean(losses["loss"])
        reporter.step(progress, budget.spent(progress))

        ended = world.agree(budget.over(progress)) if config.minutes else budget.over(progress)
        last = bool(ended) or stage.over(progress.step)
        scores = last or progress.step % config.evaluates_every == 0
        saves = last or progress.step % config.saves_every == 0
        if scores or saves or progress.step % config.log_every == 0:
            line = recent.line(progress, rate, stage.shown, world)
            guard.check(line.loss, line.norm, progress, config, saved=saved)
            record(run, world, reporter, line, watch)
        if scores and len(data.valid) > 1:
            reporter.evaluating()
            found = validate(trainee, config, data, world, whole=bool(ended))
            guard.check_score(found.figures["loss"], progress, config, saved)
            progress.scored(found.compared)
            record(run, world, reporter, found.line(progress, stage.shown), watch)
            ended = ended or (world.agree(budget.over(progress)) if config.minutes else budget.over(progress))
            if ended and found.batches is not None:  # it ends for want of a better score, on a sample
                reporter.evaluating()
                found = validate(trainee, config, data, world, whole=True)
                record(run, world, reporter, found.line(progress, stage.shown), watch)
        if saves or ended:
            trainee.save(run, world)
            saved = progress.step
            if world.main:
                average.keep(run, config, progress)
    if world.main:
        average.keep(run, config, progress)  # again, for a process that was killed before it did
        if ended and config.average:
            average.write(run, config.average, {name for name, _ in trainee.model.named_buffers()})
    world.wait()
    return ended


def take_step(trainee: Trainee, config: TrainConfig, world: World, rate: float) -> tuple[dict[str, Tensor], Tensor]:
    """One step of the optimiser: its losses by name, and the norm of its gradient before clipping."""
    progress, losses = trainee.progress, dict[str, Tensor]()
    torch.manual_seed(mix(config.seed, progress.step, world.rank))
    for group in trainee.optimizer.param_groups:
        group["lr"] = rate
    trainee.wrapped.train()
    for n in range(config.accumulate):
        batch = next_batch(trainee, config, world)
        with world.apart(trainee.wrapped) if n + 1 < config.accumulate else nullcontext():
            with torch.autocast(world.device.type, torch.bfloat16, enabled=config.precision == "bf16"):
                total, state, named = trainee.wrapped(batch, None if batch.fresh else trainee.state)
            (total / config.accumulate).backward()
        trainee.state = state if trainee.batches.carries else None
        losses = {name: losses.get(name, 0) + loss / config.accumulate for name, loss in named.items()}
        progress.tokens += batch.inputs_BL.numel() * world.size
    parameters = [p for p in trainee.model.parameters() if p.grad is not None]
    norm = torch.nn.utils.clip_grad_norm_(parameters, config.clip or torch.inf)
    trainee.optimizer.step()
    trainee.optimizer.zero_grad(set_to_none=True)
    progress.step += 1
    after_step(trainee.model, progress.step, world.add_up)
    return losses, world.plain(norm)


def next_batch(trainee: Trainee, config: TrainConfig, world: World) -> Batch:
    """The next one, with rows as long as they have grown by now."""
    length = config.length_at(trainee.progress.step, trainee.batches.longest)
    return trainee.batches.take(length).to(world.device)


@dataclass
class Recent:
    """Losses and norms of the steps since the last line of metrics."""

    losses: list[dict[str, Tensor]] = field(default_factory=list)
    norms: list[Tensor] = field(default_factory=list)

    def add(self, losses: dict[str, Tensor], norm: Tensor) -> None:
        self.losses.append(losses)
        self.norms.append(norm)

    def line(self, progress: Progress, rate: float, stage: int | None, world: World) -> TrainLine:
        """The means as a line of metrics; empties the lists."""
        means = self.means(world)
        norm = means.pop("norm")
        return TrainLine(progress.step, progress.tokens, rate, means, norm, stage)

    def means(self, world: World) -> dict[str, float]:
        """Of each loss by name, and of the gradient's norm; empties the lists."""
        names = sorted({name for losses in self.losses for name in losses})  # all processes exchange in one order
        found = {name: [losses[name] for losses in self.losses if name in losses] for name in names}
        means = {name: world.mean(torch.stack(values).double().mean()) for name, values in found.items()}
        norm = float(torch.stack(self.norms).double().mean())
        self.losses, self.norms = [], []
        return {**means, "norm": norm}


def record(run: Run, world: World, reporter: ProgressReporter, line: MetricsLine, watch: Stopwatch) -> None:
    """Write a line of metrics, and one of the clock beside it."""
    if world.main:
        run.metrics.add(line.dump())
        seconds = watch.seconds
        run.add_time(line.step, seconds)
        reporter.line(line, seconds)
