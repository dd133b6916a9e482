"""Trainee: everything that changes while a model is trained. What it is made of is what a checkpoint holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sublayer.data import Batches, Data, Task
from sublayer.nn.model import Model
from sublayer.nn.state import State
from sublayer.runs import Checkpoint, Run
from sublayer.runs.structure import put_together, take_apart
from sublayer.runs.wording import command
from sublayer.training import optimizer as optimizers
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.objective import Objective, objective
from sublayer.training.progress import Progress
from sublayer.training.recompute import recompute
from sublayer.training.request import carries


@dataclass
class Trainee:
    model: Model
    made: Objective
    """The model with its loss."""
    objective: Any
    """The same, as this process runs it: wrapped, where there are several."""
    optimizer: torch.optim.Optimizer
    batches: Any
    """Train, in the order it is read."""
    state: State | None = None
    """What is carried from batch to batch."""
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def make(cls, run: Run, config: TrainConfig, data: Data, world: World, checkpoint: Checkpoint | None) -> Trainee:
        """As it was at a checkpoint, or at the very beginning."""
        torch.manual_seed(config.seed)
        model = run.model_config.build()
        notes: dict[str, Any] = {} if checkpoint is None else checkpoint.notes
        weights = first_weights(config) if checkpoint is None else checkpoint.tensors("model")
        if weights is not None:
            fill(model, weights, run.path if checkpoint is None else checkpoint.path)
        model.to(world.device)
        if config.recompute:
            recompute(model)
        made = objective(model, config.smoothing, config.mask, answers=isinstance(data, Task))
        wrapped = world.wrap(made, shard=config.shard)
        optimizer = config.optimizer.build(model.parameters(), config.rate)
        batches = make_batches(run.model_config, config, data, world, notes.get("cursor"))
        trainee = cls(model, made, wrapped, optimizer, batches, progress=Progress(**notes.get("progress", {})))
        if checkpoint is not None:
            optimizers.load(optimizer, model, checkpoint.tensors("optimizer") or {}, world)
            trainee.state = read_state(checkpoint, world)
        return trainee

    def save(self, run: Run, world: World) -> None:
        """All processes take part; the first one writes."""
        weights = world.whole(self.model.state_dict())
        kept = world.whole(optimizers.dump(self.optimizer, self.model))
        state = None if self.state is None else world.all_rows(self.state.detach())
        if world.main:
            run.metrics.settle()
            notes = {"progress": self.progress.dump(), "cursor": self.batches.cursor, "metrics": run.metrics.size}
            tensors = {"model": weights, "optimizer": kept}
            if state is not None:
                notes["carried"], tensors["carried"] = take_apart(state)
            run.save(self.progress.step, notes, **tensors)
        # From here both a process that goes on and one that resumes have the state as it was written, strides and all.
        self.state = None if self.state is None else self.state.map(_copy)
        world.wait()


def read_state(checkpoint: Checkpoint, world: World) -> State | None:
    tensors = checkpoint.tensors("carried")
    if tensors is None:
        return None
    # Copies: tensors read from a file may lie where vector code takes another path, with other last bits.
    own = {name: _copy(tensor).to(world.device) for name, tensor in tensors.items()}
    return world.own_rows(put_together(checkpoint.notes["carried"], own))


def _copy(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def fill(model: Model, weights: dict[str, Tensor], origin: Path) -> None:
    """Give a model its weights."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        said = " ".join(str(error).splitlines()[1].split())
        raise ValueError(
            f"{origin}: its weights are not those of the model ({said[:120]}); use the version of Sublayer, and of "
            "your plug-ins, that it was trained with"
        ) from None


def first_weights(config: TrainConfig) -> dict[str, Tensor] | None:
    """Of the run to start from, if there is one."""
    if config.start is None:
        return None
    return weights_of(Run.open(config.start))


def weights_of(run: Run, step: int | None = None) -> dict[str, Tensor]:
    """Those a run stands for: averaged, if it was asked for and is done; else of its last checkpoint."""
    checkpoint = run.checkpoint(step)
    if checkpoint is None:
        raise ValueError(f"{run.path}: no checkpoint yet; {command('resume', run.path)} goes on with the training")
    return checkpoint.tensors("average") or checkpoint.tensors("model") or {}


def make_batches(
    model: Model.Config, config: TrainConfig, data: Data, world: World, cursor: dict[str, Any] | None
) -> Batches:
    carry = carries(model, config, data)
    own: dict[str, Any] = {"seed": config.seed, "rank": world.rank, "world": world.size, "cursor": cursor}
    return data.batches(config.batch, config.length, carry=carry, **own)
