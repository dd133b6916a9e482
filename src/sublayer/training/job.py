"""From what a user asks to a trained run. `train` writes down what was asked; all training is `resume`."""

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
from sublayer.runs import Checkpoint, Run, environment
from sublayer.runs.environment import differences
from sublayer.runs.run import ASKED
from sublayer.training import launch, request
from sublayer.training.budget import Stopwatch
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World, find_device, started
from sublayer.training.loop import train_on
from sublayer.training.reporters import ProgressReporter, TensorBoard, teller
from sublayer.training.trainee import Trainee, make_batches
from sublayer.training.vocabulary import fit_vocab

log = logging.getLogger("sublayer.training")

LATER = ("steps", "tokens", "minutes", "patience", "keep", "average", "threads", "device", "tensorboard", "shard")
"""What may change when a run goes on."""


def train(
    model: Model.Config,
    data: Data.Config,
    out: Path | str,
    config: TrainConfig | None = None,
    *,
    changes: Mapping[str, Any] | None = None,
    processes: int = 1,
    plugins: Sequence[str] = (),
    quiet: bool | None = None,
) -> Run:
    """Train a model on a text or a task, in a new folder; it takes their vocabulary, then `changes` are made to it."""
    run = begin(model, data, out, config or TrainConfig(), changes or {}, processes)
    return resume(run, processes=processes, plugins=plugins, quiet=quiet)


def begin(
    model: Model.Config,
    data: Data.Config,
    out: Path | str,
    config: TrainConfig,
    changes: Mapping[str, Any],
    processes: int = 1,
) -> Run:
    """The folder of a run that has not taken a step; what is wrong with the request is said before it is made."""
    if started() > 1:
        raise ValueError("train: several processes would each begin the run; use sublayer train --processes N")
    launch.check(processes, config.batch)
    Run(Path(out)).refuse_taken()
    request.check_out(Path(out), data)
    request.check_kind(model, data)
    start = None if config.start is None else Run.open(Path(config.start).absolute())
    text = prepare(data, tokenizer=start.tokenizer if start else None)
    model = fit_vocab(model, changes, text)
    request.check_pair(model, config, text)
    world = World(config.device)
    request.check_memory(model, world.device)
    make_batches(model, config, text, world, None)  # says if the text is too short
    if start:
        request.check_start(model, start)
        config = config.but(start=str(start.path))
    if config.tensorboard:
        TensorBoard.kind()
    if config.threads:
        torch.set_num_threads(config.threads)
    asked = {"model": model.dump(), "data": text.config.dump(), "text": text.hash, "train": config.dump()}
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
    quiet: bool | None = None,
) -> Run:
    """Go on with a run from its last checkpoint, or from the one after `step` steps, to the end of its budget.

    changes: to train's fields that may change on the way, such as a larger `steps`. plugins: modules that other
    processes must import, too.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    config = TrainConfig.parse(run.asked["train"], f"{run.path / ASKED}: train")
    if changes:
        config = changed(run, config, changes)
        check_further(run, config, step, processes)
        run = write_down(run, config)
    launch.check(processes, config.batch)
    if processes > 1:
        with run.held():
            pass  # it is free, or that is said at once
        launch.launch(run.path, processes, step, plugins, quiet)
        return run
    with launch.reporting():
        return _take_part(run, config, step, quiet)


def _take_part(run: Run, config: TrainConfig, step: int | None, quiet: bool | None) -> Run:
    """Train in this process, alone or among others, of which the first one holds the run."""
    world = World(config.device)
    if not world.main:
        return _resume(run, config, world, step, ProgressReporter())
    with run.held():
        tell = teller(quiet)
        tell = TensorBoard(tell, run.path / "tensorboard") if config.tensorboard else tell
        return _resume(run, config, world, step, tell)


def _resume(run: Run, config: TrainConfig, world: World, step: int | None, tell: ProgressReporter) -> Run:
    settle_environment(run, config, world)
    data = read_data(run, world)
    checkpoint = find_checkpoint(run, world, step)
    trainee = Trainee.make(run, config, data, world, checkpoint)
    if world.main:
        drop_later(run, trainee.progress.step)
        run.metrics.cut(0 if checkpoint is None else checkpoint.notes["metrics"])
        run.clock.mend()
    watch = Stopwatch(run.seconds)
    if world.main:
        tell.start(title(run, config, data, trainee))
    begun = trainee.progress.step
    try:
        ended = train_on(trainee, run, config, data, world, watch, tell)
    finally:
        tell.stop()
        world.leave()
    if trainee.progress.step == begun and world.main:
        log.warning("%s: no step taken, %s; another train.steps, tokens, minutes or patience goes on", run.path, ended)
    return run


def find_checkpoint(run: Run, world: World, step: int | None) -> Checkpoint | None:
    """The one that the first process finds: others may see its files later, or newer ones already."""
    found = run.checkpoint(None if world.restarts else step) if world.main else None
    if world.main and world.restarts:
        log.warning("%s: a process died; all go on from step %d", run.path, found.step if found else 0)
    agreed = world.agree(None if found is None else found.step)
    return found if world.main or agreed is None else run.checkpoint(agreed)


def drop_later(run: Run, step: int) -> None:
    """Checkpoints of steps that are taken anew: what was measured on the way to them is cut."""
    for one in reversed(run.checkpoints):
        if one.step > step:
            one.remove()


def changed(run: Run, config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """What was asked, with other values, where they may change on the way."""
    for key in changes:
        if key.split(".")[0] not in LATER:
            raise ConfigError(
                f"train.{key}: cannot change on the way; what can is {', '.join(LATER)}. Train anew, or start from "
                f"this run's weights with sublayer train … {shlex.quote(f'train.start={run.path}')}"
            )
    return config.override(changes, "train")


def write_down(run: Run, config: TrainConfig) -> Run:
    """Another config for a run, which is opened again."""
    with run.held():
        run.ask({**run.asked, "train": config.dump()})
    return Run.open(run.path)


def check_further(run: Run, config: TrainConfig, step: int | None, processes: int) -> None:
    """What would stop the run at once is said before anything is written down."""
    launch.check(processes, config.batch)
    find_device(config.device)
    run.checkpoint(step)
    if config.tensorboard:
        TensorBoard.kind()


def read_data(run: Run, world: World) -> Data:
    """The text that the run began with; the first process makes what is not in the cache, the others read it."""
    config = Data.Config.parse(run.asked["data"], f"{run.path / ASKED}: data")
    if not world.main:
        world.wait()
    data = prepare(config, tokenizer=run.tokenizer)
    if world.main:
        world.wait()
    if data.hash != run.asked["text"]:
        raise ValueError(
            f"{run.path}: the text is not the one this run began with ({data.title} has "
            "changed); put it back, or train a new run"
        )
    return data


def settle_environment(run: Run, config: TrainConfig, world: World) -> None:
    """As many threads as before; a warning where the rest is not as it was, since last bits may then differ."""
    recorded = {"processes": 1, "threads": torch.get_num_threads(), **run.environment}
    alike = recorded["processes"] == world.size
    torch.set_num_threads(config.threads or (int(recorded["threads"]) if alike else torch.get_num_threads()))
    others = differences(recorded, environment(world.device, world.size))
    if others and world.main:
        log.warning("%s: results may differ in the last bits: %s", run.path, "; ".join(others))


def title(run: Run, config: TrainConfig, data: Data, trainee: Trainee) -> str:
    params = run.model_config.cost().params
    done = f", from step {trainee.progress.step:,}" if trainee.progress.step else ""
    text = f"{len(data.train):,} tokens of {data.title}, vocabulary {data.vocab:,}"
    return f"{run.path}: {params / 1e6:.2f} M parameters on {text}{done}"
