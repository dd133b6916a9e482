"""What is wrong with a request to train, said before there is a run: impossible pairs of model, training and text."""

from __future__ import annotations

from pathlib import Path

import torch

from sublayer.data import DataConfig
from sublayer.data.source import Folder
from sublayer.nn.config import ConfigError
from sublayer.nn.embedding import Span
from sublayer.nn.model import EncoderDecoder, Model
from sublayer.nn.model.single import SingleStack
from sublayer.runs import Run
from sublayer.runs.environment import memory as machine_memory
from sublayer.runs.wording import command
from sublayer.training.config import TrainConfig


def check_out(out: Path, data: DataConfig) -> None:
    """A run in the folder that it learns from would read itself."""
    source = data.source
    if isinstance(source, Folder.Config) and out.absolute().is_relative_to(Path(source.path).expanduser().absolute()):
        raise ValueError(
            f"{out}: lies in {source.path}, whose files are the text, so the run would read itself; choose another "
            "folder for it, or name the files by a pattern in quotes ('*.md')"
        )


def check_kind(model: Model.Config) -> None:
    if isinstance(model, EncoderDecoder.Config):
        raise ConfigError(
            f"{model.tag}: plain text has no pairs of source and target to learn from; train a decoder or an encoder"
        )


def check_head(model: Model.Config) -> None:
    assert isinstance(model, SingleStack.Config)
    if model.head.pools or isinstance(model.head, Span.Config):
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


def check_carry(model: Model.Config, config: TrainConfig) -> None:
    """What is carried from batch to batch must neither grow with each of them nor run out of places."""
    if not (model.carries if config.carry is None else config.carry):
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
