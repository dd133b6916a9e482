"""Trainee: everything that changes while a model is trained. What it is made of is what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from sublayer.data import Batches, Data
from sublayer.nn.model import Model
from sublayer.nn.state import State
from sublayer.objectives import Objective, choose
from sublayer.runs import Checkpoint, Notes, Progress, Run
from sublayer.runs.structure import put_together, take_apart
from sublayer.runs.weights import load_weights, weights_of
from sublayer.training import optimizer as optimizers
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.recompute import recompute
from sublayer.training.request import carries
from sublayer.training.stages import Stage, plan, stage_at


@dataclass
class Trainee:
    model: Model
    objective: Objective
    """The model with its loss."""
    wrapped: Any
    """The objective as this process runs it: inside DDP or FSDP2, where there are several processes."""
    optimizer: torch.optim.Optimizer
    batches: Batches
    """Train, in the order it is read."""
    stage: Stage
    state: State | None = None
    """The state that is carried from batch to batch."""
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def make(cls, run: Run, config: TrainConfig, data: Data, world: World, checkpoint: Checkpoint | None) -> Trainee:
        """As it was at a checkpoint, or at the very beginning; in the stage of the next step."""
        stages = plan(run.model_config, config)
        stage = stage_at(stages, 0 if checkpoint is None else checkpoint.step)
        config = stage.config
        torch.manual_seed(config.seed)
        model = stage.model.build()
        notes = None if checkpoint is None else Notes.read(checkpoint)
        weights = first_weights(config) if checkpoint is None else checkpoint.tensors("model")
        if checkpoint is not None:
            load_weights(model, weights or {}, checkpoint.path)
        elif weights is not None:  # what the other run has not begins as in any training
            load_weights(model, {**model.state_dict(), **weights}, run.path)
        model.to(world.device)
        if config.recompute:
            recompute(model)
        chosen = choose(stage.model, data.config, config.objective)
        objective = chosen.build(model, smoothing=config.smoothing, mask=config.mask)
        enters = notes is not None and stage.number > 1 and notes.progress.step == stage.begin
        cursor = None if notes is None or enters else notes.cursor
        batches = make_batches(stage.model, config, data, world, cursor)
        state = None
        if notes is not None and enters:
            before = stages[stage.number - 2]
            batches.seek(make_batches(before.model, before.config, data, world, notes.cursor).epoch)
        elif checkpoint is not None and batches.carries:
            state = read_state(checkpoint, world, model, config)
        wrapped = world.wrap(objective, shard=config.shard)
        optimizer = config.optimizer.build(model.parameters(), config.rate)
        progress = Progress() if notes is None else notes.progress
        if enters:  # figures of two stages do not compare
            progress = replace(progress, best=None, best_step=None, stale=0)
        trainee = cls(model, objective, wrapped, optimizer, batches, stage, state, progress)
        if checkpoint is not None:
            stored = checkpoint.tensors("optimizer") or {}
            optimizers.load(optimizer, model, stored, world, checkpoint.path, stepped=progress.step > 0)
        return trainee

    def save(self, run: Run, world: World) -> None:
        """Write a checkpoint. All processes take part; the first one writes."""
        weights = world.whole(self.model.state_dict())
        moments = world.whole(optimizers.dump(self.optimizer, self.model))
        state = None if self.state is None else world.all_rows(self.state.detach())
        if world.main:
            run.metrics.flush()
            carried, tensors = None, {"model": weights, "optimizer": moments}
            if state is not None:
                carried, tensors["carried"] = take_apart(state)
            notes = Notes(self.progress, self.batches.cursor, run.metrics.size, carried)
            run.save(self.progress.step, notes.dump(), **tensors)
        # From here a process that continues and one that resumes have the state as it was written, strides and all.
        self.state = None if self.state is None else self.state.map(_copy)
        world.wait()


def read_state(checkpoint: Checkpoint, world: World, model: Model, config: TrainConfig) -> State | None:
    """The carried state, once it is known to be one that the model makes of such batches."""
    tensors, carried = checkpoint.tensors("carried"), Notes.read(checkpoint).carried
    if tensors is None or carried is None:
        return None
    # Copies: tensors read from a file may lie at addresses where vector code takes another path, with other last bits.
    own = {name: _copy(tensor).to(world.device) for name, tensor in tensors.items()}
    ids_BL = torch.zeros(config.batch, min(config.length, TRIED), dtype=torch.long, device=world.device)
    mode = model.training
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            model.eval()
            state = put_together(carried, own, like=model(ids_BL)[1])
            model(ids_BL, state.fork())
    except (ValueError, RuntimeError, TypeError, IndexError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"{checkpoint.path}: its carried state does not fit the model: {why[:200]}. Train again, or use another "
            "checkpoint by --step"
        ) from None
    finally:
        model.train(mode)
    return world.own_rows(state)


TRIED = 8
"""Tokens of a row that a carried state is tried with."""


def _copy(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def first_weights(config: TrainConfig) -> dict[str, Tensor] | None:
    """Those of the run to start from, if there is one."""
    return None if config.start is None else weights_of(Run.open(config.start))


def make_batches(
    model: Model.Config, config: TrainConfig, data: Data, world: World, cursor: Mapping[str, Any] | None
) -> Batches:
    """Train, from its beginning, or from where a cursor stands."""
    own: dict[str, Any] = {"seed": config.seed, "rank": world.rank, "world": world.size, "cursor": cursor}
    try:
        return data.batches(config.batch, config.length, carry=carries(model, config, data), **own)
    except (KeyError, TypeError) as error:
        if cursor is None:
            raise
        raise ValueError(
            f"cursor: {dict(cursor)} is not one of these batches ({type(error).__name__}: {error}); use another "
            "checkpoint by --step, or train again"
        ) from None
