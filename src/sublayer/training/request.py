"""What is wrong with a request to train, said before there is a run: impossible pairs of model, training and text."""

from __future__ import annotations

from pathlib import Path

import torch

from sublayer.data import Data, Dataset, Task
from sublayer.data.base import TASK
from sublayer.nn.config import ConfigError
from sublayer.nn.embedding import Label
from sublayer.nn.model import Decoder, EncoderDecoder, Model
from sublayer.nn.model.single import SingleStack
from sublayer.runs import Run
from sublayer.runs.environment import memory as machine_memory
from sublayer.runs.wording import command
from sublayer.training.config import TrainConfig


def check_out(out: Path, data: Data.Config) -> None:
    """A run in the folder that it learns from would read itself."""
    folder = data.source.folder if isinstance(data, Dataset.Config) else None
    if folder is not None and out.absolute().is_relative_to(Path(folder).expanduser().absolute()):
        raise ValueError(
            f"{out}: lies in {folder}, whose files are the text, so the run would read itself; choose another "
            "folder for it, or name the files by a pattern in quotes ('*.md')"
        )


def check_kind(model: Model.Config, data: Data.Config | None = None) -> None:
    if isinstance(data, Task.Config) and not isinstance(model, Decoder.Config):
        raise ConfigError(
            f"{model.tag}: {TASK}{data.tag} is read and answered from left to right, as a decoder does; train a "
            "decoder, such as gpt2"
        )
    if isinstance(model, EncoderDecoder.Config):
        raise ConfigError(
            f"{model.tag}: plain text has no pairs of source and target to learn from; train a decoder or an encoder"
        )


def check_pair(model: Model.Config, config: TrainConfig, data: Data) -> None:
    """What model, training and data say of each other."""
    if isinstance(data, Task):
        check_answers(model, data)
        check_rows(model, config, data)
    else:
        check_head(model)
        check_length(model, config)
    check_carry(model, config, data)


def check_head(model: Model.Config) -> None:
    assert isinstance(model, SingleStack.Config)
    if not model.head.speaks:
        raise ConfigError(
            f"head={model.head.tag}: plain text has no answers to learn from; use a head that predicts tokens, such as "
            "head=tied or head=masked_lm"
        )


def check_length(model: Model.Config, config: TrainConfig) -> None:
    for stack in model.stacks.values():
        limit = getattr(stack.position, "limit", None)
        if limit is not None and config.length > limit:
            raise ConfigError(
                f"train.length={config.length}: the model has {limit} learned positions; use a length up to {limit}, "
                f"or position.limit={config.length}"
            )


def check_answers(model: Model.Config, data: Task) -> None:
    """The head must have the task's answers, and no more of its own."""
    assert isinstance(model, SingleStack.Config)
    if data.classes is None and not model.head.speaks:
        raise ConfigError(
            f"head={model.head.tag}: the answers of {data.title} are what it reads; use a head that predicts tokens, "
            "such as head=tied"
        )
    fits = isinstance(model.head, Label.Config) and model.head.classes == data.classes
    if data.classes is not None and not fits:
        raise ConfigError(
            f"head={model.head.tag}: {data.title} has {data.classes} answers, which are not what it reads; leave head "
            f"and head.classes out, or use head=label head.classes={data.classes}"
        )


def check_rows(model: Model.Config, config: TrainConfig, data: Task) -> None:
    """Without state an episode is read whole, and must fit the places there are."""
    if carries(model, config, data):
        return
    longest = data.config.longest("train")
    if config.grow_from is not None and config.grow_from > longest:
        raise ConfigError(
            f"train.grow_from={config.grow_from}: episodes of {data.title} have up to {longest} tokens; rows grow to "
            "whole episodes, use less"
        )
    longest = max(longest, data.config.longest("valid"))
    for stack in model.stacks.values():
        limit = getattr(stack.position, "limit", None)
        if limit is not None and longest > limit:
            raise ConfigError(
                f"{data.title}: has episodes of up to {longest} tokens, and the model {limit} learned positions; use "
                f"position.limit={longest}, or shorter episodes"
            )


def carries(model: Model.Config, config: TrainConfig, data: Data | None = None) -> bool:
    """Whether state goes from batch to batch."""
    return (model.carries if config.carry is None else config.carry) and not (data is not None and data.alone)


def check_carry(model: Model.Config, config: TrainConfig, data: Data | None = None) -> None:
    """What is carried from batch to batch must neither grow with each of them nor run out of places."""
    if config.carry and data is not None and data.alone:
        raise ConfigError(f"train.carry: each episode of {data.title} stands for itself; leave it out")
    if not carries(model, config, data):
        return
    for stack in model.stacks.values():
        if hasattr(stack.position, "limit"):
            raise ConfigError(
                f"train.carry: places are counted on from batch to batch, and {stack.position.tag} positions end; use "
                "train.carry=false, or a position without end, such as rotary"
            )
        if any(getattr(part, "reach", 0) is None for part in stack.parts):
            raise ConfigError(
                "train.carry: the model remembers all that it has read, more with every batch; use train.carry=false, "
                "or let it forget, by s.memory=segment or s.pattern=window"
            )


def check_memory(model: Model.Config, device: torch.device) -> None:
    """Weights, their gradients and two moments of each: more than all memory of the machine cannot be."""
    params, there = model.cost().params, machine_memory()
    if device.type == "cpu" and there is not None and 4 * 4 * params > there:
        raise ConfigError(
            f"dim={model.dim}: {params:,} parameters need {16 * params / 2**30:,.0f} GiB to train, and this machine "
            f"has {there / 2**30:,.0f}; use a smaller dim, layout or vocabulary"
        )


def check_start(model: Model.Config, start: Run) -> None:
    """Fine-tuning takes all weights, so the models must be alike."""
    differ = start.model_config.diff(model)
    if differ:
        path, (there, here) = next(iter(differ.items()))
        raise ConfigError(
            f"train.start={start.path}: its model has {path}={there}, this one {here}; leave the model's keys as the "
            "run has them"
        )
    if not start.checkpoints:
        raise ConfigError(f"train.start={start.path}: the run has no checkpoint yet; resume it first")
    try:
        start.checkpoint()
    except ValueError:
        raise ConfigError(
            f"train.start={start.path}: its last checkpoint is damaged; {command('resume', start.path)} says what is "
            "whole"
        ) from None
