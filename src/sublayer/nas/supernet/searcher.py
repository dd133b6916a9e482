"""Searcher: a supernet with everything that changes while it is searched, all of which a checkpoint holds.

Two trainees share the model: one trains the weights, the other the architecture, each with its own text, state and
optimiser. A step is an ordinary training step; parameters that it does not train have requires_grad off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sublayer.data import Dataset, Lanes, Tokens, Windows
from sublayer.data.permutation import mix
from sublayer.nas.supernet import draw
from sublayer.nas.supernet.config import SearchConfig
from sublayer.nas.supernet.plan import Plan
from sublayer.nas.supernet.stack import Supernet
from sublayer.nn.model import Model
from sublayer.objectives import choose
from sublayer.runs import Checkpoint, Progress
from sublayer.runs.structure import put_together, take_apart
from sublayer.runs.weights import load_weights
from sublayer.training import optimizer as optimizers
from sublayer.training import stages
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.loop import take_step
from sublayer.training.optimizer import Adam
from sublayer.training.recompute import recompute
from sublayer.training.trainee import Trainee

ROLES = ("weights", "architecture")
ARCHITECTURE = "stack.preference_NC"


@dataclass
class Searcher:
    model: Model
    stack: Supernet
    plan: Plan
    paths: str
    world: World
    trainees: dict[str, Trainee]
    configs: dict[str, TrainConfig]
    rate: float
    """Learning rate of the architecture."""
    word: str
    """The most probable choices, after the last step."""
    changed: int = 0
    """The architecture's step count when the word last changed."""

    @classmethod
    def make(
        cls,
        config: Model.Config,
        search: SearchConfig,
        train: TrainConfig,
        data: Dataset,
        world: World,
        checkpoint: Checkpoint | None = None,
    ) -> Searcher:
        """From a checkpoint, or at step 0; `config` is the supernet's."""
        torch.manual_seed(train.seed)
        model, notes = config.build(), {} if checkpoint is None else checkpoint.notes
        if checkpoint is not None:
            load_weights(model, checkpoint.tensors("model") or {}, checkpoint.path)
        model.to(world.device)
        if train.recompute:
            recompute(model)
        made, configs = choose(config).build(model, smoothing=train.smoothing, mask=train.mask), roles(train)
        moved = {role: parameters(model, role) for role in ROLES}
        built = {
            "weights": train.optimizer.build(moved["weights"], train.rate),
            "architecture": Adam.Config(decay=search.decay).build(moved["architecture"], search.lr),
        }
        texts = divide(data.train, search.share)
        trainees = {
            role: Trainee(
                model,
                made,
                made,
                built[role],
                batches(config, configs[role], texts[role], notes.get(f"{role} cursor")),
                stages.plan(config, configs[role])[-1],
                progress=Progress(**notes.get(f"{role} progress", {})),
            )
            for role in ROLES
        }
        plan = Plan.of(search, epoch(batches(config, configs["weights"], texts["weights"])))
        stack: Any = model.writer  # the Supernet that `config` names
        stack.remembers = carries(config, train)
        if search.latency_weight:
            stack.price(search.latencies, search.latency_weight)
        searcher = cls(model, stack, plan, search.paths, world, trainees, configs, search.lr, stack.word)
        if checkpoint is not None:
            searcher._restore(checkpoint)
        return searcher

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.changed = checkpoint.notes["changed"]
        for role, trainee in self.trainees.items():
            optimizers.load(trainee.optimizer, self.model, checkpoint.tensors(f"{role}_optimizer") or {}, self.world)
            tensors = checkpoint.tensors(f"{role}_carried")
            if tensors is not None:
                own = {name: _copy(tensor).to(self.world.device) for name, tensor in tensors.items()}
                trainee.state = put_together(checkpoint.notes[f"{role} carried"], own)

    @property
    def step(self) -> int:
        """Steps of both phases together."""
        return sum(trainee.progress.step for trainee in self.trainees.values())

    @property
    def tuned(self) -> int:
        """Steps of the architecture."""
        return self.trainees["architecture"].progress.step

    @property
    def over(self) -> bool:
        return self.step >= self.plan.steps or self.settled

    @property
    def settled(self) -> bool:
        return self.plan.settled(self.tuned, self.changed)

    def take_step(self) -> tuple[str, dict[str, Tensor], Tensor]:
        """One step of the current phase: its role, its losses by name, the norm of its gradient."""
        role = "architecture" if self.plan.tunes(self.step) else "weights"
        trainee, config = self.trainees[role], self.configs[role]
        temperature = self.plan.temperature(self.step)
        self.stack.draw = partial(draw.path if self.paths == "one" else draw.shares, temperature=temperature)
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_((name == ARCHITECTURE) == (role == "architecture"))
        losses, norm = take_step(trainee, config, self.world, self._rate(role))
        if self.stack.word != self.word:
            self.word, self.changed = self.stack.word, self.tuned
        return role, losses, norm

    def _rate(self, role: str) -> float:
        if role == "architecture":
            return self.rate
        config, done = self.configs[role], self.trainees[role].progress.step
        spent = self.step / self.plan.steps
        return config.rate * config.schedule.build().rate(done, config.warmup, spent)

    def save(self) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
        """Plain notes, and tensors by the name of their file."""
        notes: dict[str, Any] = {"changed": self.changed}
        tensors = {"model": self.world.whole(self.model.state_dict())}
        for role, trainee in self.trainees.items():
            notes |= {f"{role} progress": trainee.progress.dump(), f"{role} cursor": trainee.batches.cursor}
            tensors[f"{role}_optimizer"] = self.world.whole(optimizers.dump(trainee.optimizer, self.model))
            if trainee.state is not None:
                notes[f"{role} carried"], tensors[f"{role}_carried"] = take_apart(trainee.state)
                # A process that continues and one that resumes must have equal states, strides included.
                trainee.state = trainee.state.map(_copy)
        return notes, tensors


def roles(train: TrainConfig) -> dict[str, TrainConfig]:
    """The architecture's gradient is not clipped; its data order and noise have a seed of their own."""
    return {"weights": train, "architecture": train.but(seed=mix(train.seed, 1) >> 1, clip=None)}


def parameters(model: nn.Module, role: str) -> list[nn.Parameter]:
    named = model.named_parameters()
    return [parameter for name, parameter in named if (name == ARCHITECTURE) == (role == "architecture")]


def divide(train: Tokens, share: float) -> dict[str, Tokens]:
    """The text for the weights, and the rest of it, for the architecture."""
    cut = round(len(train) * (1 - share))
    ids = {"weights": train.ids[:cut], "architecture": train.ids[cut:]}
    return {role: replace(train, name=f"train, the part for the {role}", ids=ids[role]) for role in ROLES}


def carries(model: Model.Config, config: TrainConfig) -> bool:
    """Whether the state of a batch is carried to the next."""
    return model.carries if config.carry is None else config.carry


def batches(
    model: Model.Config, config: TrainConfig, text: Tokens, cursor: dict[str, Any] | None = None
) -> Lanes | Windows:
    kind = Lanes if carries(model, config) else Windows
    return kind(text, config.batch, config.length, seed=config.seed, cursor=cursor)


def epoch(some: Lanes | Windows) -> int:
    """Number of batches in one pass over the text."""
    return max(1, some.lane // some.length if isinstance(some, Lanes) else some.windows // some.batch)


def _copy(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)
