"""From a request to a trained run. `begin` writes the request to a new folder; all training is `resume`."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from sublayer.data import Data, prepare
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.plugins import hinting, modules_of
from sublayer.runs import Checkpoint, Notes, Run, environment
from sublayer.runs.environment import differences
from sublayer.runs.run import ASKED
from sublayer.runs.wording import plural
from sublayer.training import launch, request, stages
from sublayer.training.budget import Stopwatch
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World, find_device, started
from sublayer.training.images import fit_length
from sublayer.training.loop import train_on
from sublayer.training.reporters import ProgressReporter, TensorBoard
from sublayer.training.stages import Stage
from sublayer.training.trainee import Trainee, make_batches
from sublayer.training.vocabulary import fit_vocab

log = logging.getLogger("sublayer.training")

CHANGEABLE = ("steps", "tokens", "minutes", "patience", "keep", "average", "threads", "device", "tensorboard", "shard")
"""Fields of a training that may change when it is resumed."""


def train(
    model: Model.Config,
    data: Data.Config,
    out: Path | str,
    config: TrainConfig | None = None,
    *,
    changes: Mapping[str, Any] | None = None,
    processes: int = 1,
    plugins: Sequence[str] = (),
    reporter: ProgressReporter | None = None,
    origin: str | None = None,
) -> Run:
    """Train a model on a text or a task, in a new folder; it takes their vocabulary, then `changes` are made to it.

    origin: the name of the model, which the run notes.
    """
    settings = config or TrainConfig()
    prepared = prepare_for(model, data, out, settings, processes)
    run = begin(model, data, out, settings, changes or {}, processes, prepared=prepared, origin=origin)
    return resume(run, processes=processes, plugins=plugins, reporter=reporter, prepared=prepared)


def prepare_for(
    model: Model.Config, data: Data.Config, out: Path | str, config: TrainConfig, processes: int = 1
) -> Data:
    """The data of a request, once what can be checked without it is."""
    if started() > 1:
        raise ValueError("train: several processes would each begin the run; use sublayer train --processes N")
    check_processes(processes, config)
    Run(Path(out)).refuse_taken()
    request.check_out(Path(out), data)
    request.check_kind(model, data, config)
    start = None if config.start is None else Run.open(Path(config.start).absolute())
    return prepare(data, tokenizer=start.tokenizer if start else None)


def begin(
    model: Model.Config,
    data: Data.Config,
    out: Path | str,
    config: TrainConfig,
    changes: Mapping[str, Any],
    processes: int = 1,
    *,
    prepared: Data | None = None,
    origin: str | None = None,
) -> Run:
    """The folder of a run that has not taken a step. The request is checked before the folder is made.

    prepared: what `prepare_for` gave for the same request. origin: the name of the model, if it has one.
    """
    text = prepare_for(model, data, out, config, processes) if prepared is None else prepared
    model = fit_vocab(model, changes, text, config.objective)
    config = fit_length(config, text)
    config, world = stages.resolve(model, config), World(config.device)
    request.check_memory(model, world.device)
    for stage in stages.plan(model, config):
        with stages.naming(stage):
            request.check_pair(stage.model, stage.config, text)
            make_batches(stage.model, stage.config, text, world, None)  # refuses a text that is too short
    if config.start is not None:
        start = Run.open(Path(config.start).absolute())
        request.check_start(model, start)
        config = config.but(start=str(start.path))
    if config.tensorboard:
        TensorBoard.kind()
    if config.threads:
        torch.set_num_threads(config.threads)
    asked = {"model": model.dump(), "data": text.config.dump(), "text": text.hash, "train": config.dump()}
    asked |= {"origin": origin} if origin else {}
    asked |= {"plugins": used} if (used := modules_of(model, text.config, config)) else {}
    here = environment(world.device, processes)
    if processes > 1:
        here["threads"] = config.threads or launch.threads(processes)
    return Run.create(out, asked, here, text.tokenizer)


def resume(
    run: Run | Path | str,
    changes: Mapping[str, Any] | None = None,
    *,
    step: int | None = None,
    processes: int = 1,
    plugins: Sequence[str] = (),
    prepared: Data | None = None,
    reporter: ProgressReporter | None = None,
) -> Run:
    """Continue a run from its last checkpoint, or from the one after `step` steps, to the end of its budget.

    changes: to train's fields that may change on the way, such as a larger `steps`. plugins: modules that other
    processes must import, too. prepared: the run's data, where the caller has it.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    with hinting(run.request.plugins):
        config = TrainConfig.parse(run.asked["train"], f"{run.path / ASKED}: train")
    if changes:
        config = changed(run, config, changes)
        check_further(run, config, step, processes)
        run = rewrite(run, config)
    check_processes(processes, config)
    if processes > 1:
        with run.held():
            pass  # raises at once if another process holds it
        launch.launch(run.path, processes, step, plugins, reporter or ProgressReporter())
        return run
    with launch.reporting() as to_launcher:
        return _train_here(run, config, step, to_launcher or reporter or ProgressReporter(), prepared)


def _train_here(
    run: Run, config: TrainConfig, step: int | None, reporter: ProgressReporter, prepared: Data | None
) -> Run:
    """Train in this process, alone or among others; the first one locks the run."""
    world = World(config.device)
    if not world.main:
        return _resume(run, config, world, step, ProgressReporter(), prepared)
    with run.held():
        reporter = TensorBoard(reporter, run.path / "tensorboard") if config.tensorboard else reporter
        return _resume(run, config, world, step, reporter, prepared)


def _resume(
    run: Run, config: TrainConfig, world: World, step: int | None, reporter: ProgressReporter, prepared: Data | None
) -> Run:
    restore_environment(run, config, world)
    data = read_data(run, world) if prepared is None else prepared
    checkpoint = find_checkpoint(run, world, step)
    trainee = Trainee.make(run, config, data, world, checkpoint)
    if world.main:
        warn_of_warmup(run, config)
        drop_later(run, trainee.progress.step)
        run.metrics.cut(0 if checkpoint is None else Notes.read(checkpoint).metrics)
        run.clock.mend()
    watch = Stopwatch(run.seconds)
    if world.main:
        reporter.start(title(run, data, trainee), config.steps, trainee.progress.tokens, watch.seconds)
    begun = trainee.progress.step
    try:
        show_stage(trainee.stage, world, reporter)
        while (ended := train_on(trainee, run, data, world, watch, reporter)) is None:
            border = run.checkpoint(trainee.progress.step)
            del trainee  # the next one needs the memory
            trainee = Trainee.make(run, config, data, world, border)
            show_stage(trainee.stage, world, reporter)
    finally:
        reporter.stop()
        world.leave()
    if world.main and trainee.stage.end is not None:
        log.warning(
            "%s: training ended in stage %d of %d, %s; the run's model is that of the last stage",
            run.path,
            trainee.stage.number,
            trainee.stage.count,
            ended,
        )
    if trainee.progress.step == begun and world.main:
        log.warning("%s: no step taken, %s; another train.steps, tokens, minutes or patience goes on", run.path, ended)
    return run


def show_stage(stage: Stage, world: World, reporter: ProgressReporter) -> None:
    if world.main and stage.count > 1:
        reporter.stage(stage.number, stage.count, stage.title)


def find_checkpoint(run: Run, world: World, step: int | None) -> Checkpoint | None:
    """The one that the first process finds: others may see its files later, or already newer ones."""
    found = run.checkpoint(None if world.restarts else step) if world.main else None
    if world.main and world.restarts:
        log.warning("%s: a process died; all go on from step %d", run.path, found.step if found else 0)
    agreed = world.agree(None if found is None else found.step)
    return found if world.main or agreed is None else run.checkpoint(agreed)


def drop_later(run: Run, step: int) -> None:
    """Remove checkpoints of steps that are taken again: their lines of metrics are cut, too."""
    for one in reversed(run.checkpoints):
        if one.step > step:
            one.remove()


def changed(run: Run, config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """The config with other values, where they may change on the way."""
    for key in changes:
        if key.split(".")[0] not in CHANGEABLE:
            raise ConfigError(
                f"train.{key}: cannot change on the way; what can is {', '.join(CHANGEABLE)}. Train anew, or start "
                f"from this run's weights with sublayer train … {shlex.quote(f'train.start={run.path}')}"
            )
    return config.override(changes, "train")


def rewrite(run: Run, config: TrainConfig) -> Run:
    """Write another config to a run, and open it again."""
    with run.held():
        run.ask({**run.asked, "train": config.dump()})
    return Run.open(run.path)


def check_further(run: Run, config: TrainConfig, step: int | None, processes: int) -> None:
    """Refuse what would stop the run at once, before anything is written."""
    check_processes(processes, config)
    find_device(config.device)
    run.checkpoint(step)
    if config.tensorboard:
        TensorBoard.kind()


def check_processes(processes: int, config: TrainConfig) -> None:
    """Refuse a number of processes that cannot share the batches, of any stage."""
    for batch in (config.batch, *(stage.batch for stage in config.stages)):
        if batch is not None:
            launch.check(processes, batch)


def read_data(run: Run, world: World) -> Data:
    """The text that the run began with; the first process fills the cache, the others read it."""
    if not world.main:
        world.wait()
    data = prepare(run.data_config, tokenizer=run.tokenizer)
    if world.main:
        world.wait()
    if data.hash != run.request.text:
        raise ValueError(
            f"{run.path}: the text is not the one this run began with ({data.title} has "
            "changed); put it back, or train a new run"
        )
    return data


def restore_environment(run: Run, config: TrainConfig, world: World) -> None:
    """Set as many threads as before; warn where the machine or versions differ, since last bits may then differ."""
    recorded = {"processes": 1, "threads": torch.get_num_threads(), **run.environment}
    alike = recorded["processes"] == world.size
    torch.set_num_threads(config.threads or (int(recorded["threads"]) if alike else torch.get_num_threads()))
    others = differences(recorded, environment(world.device, world.size))
    if others and world.main:
        log.warning("%s: results may differ in the last bits: %s", run.path, "; ".join(others))


def warn_of_warmup(run: Run, config: TrainConfig) -> None:
    """Where the budget ends before the warm-up, the peak rate is never reached."""
    steps = [config.steps] if config.steps else []
    if config.tokens:
        steps.append(-(-config.tokens // (config.batch * config.length * config.accumulate)))
    if steps and config.warmup > min(steps):
        log.warning(
            "%s: train.warmup=%d is longer than the run of %s, so the learning rate rises to %.2g only, %.0f%% of the "
            "peak; use a smaller train.warmup, or train longer",
            run.path,
            config.warmup,
            plural(min(steps), "step"),
            config.rate * min(steps) / config.warmup,
            100 * min(steps) / config.warmup,
        )


def title(run: Run, data: Data, trainee: Trainee) -> str:
    """Model and data of the training, in one line."""
    params = run.model_config.cost().params
    done = f", from step {trainee.progress.step:,}" if trainee.progress.step else ""
    text = f"{len(data.train):,} tokens of {data.title}, vocabulary {data.vocab:,}"
    return f"{run.path}: {params / 1e6:.2f} M parameters on {text}{done}"
