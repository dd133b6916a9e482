"""Checks of a request to train, before there is a run: model, training and data that do not fit each other."""

from __future__ import annotations

from pathlib import Path

import torch

from sublayer.data import Data
from sublayer.evaluation.protocol import min_limit
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.objectives import choose
from sublayer.runs import Run
from sublayer.runs.environment import memory as machine_memory
from sublayer.runs.wording import command
from sublayer.training.config import TrainConfig
from sublayer.training.images import check_images


def check_out(out: Path, data: Data.Config) -> None:
    """A run in the folder that it learns from would read itself."""
    if data.folder is not None and out.absolute().is_relative_to(data.folder.absolute()):
        raise ValueError(
            f"{out}: lies in {data.folder}, whose files are the text, so the run would read itself; choose another "
            "folder for it, or name the files by a pattern in quotes ('*.md')"
        )


def check_kind(model: Model.Config, data: Data.Config | None = None, config: TrainConfig | None = None) -> None:
    """There must be an objective for the model on this kind of data, by default a plain text."""
    choose(model, data, None if config is None else config.objective)


def check_head(model: Model.Config) -> None:
    """The head must predict the tokens of a plain text."""
    choose(model).check_model(model)


def check_pair(model: Model.Config, config: TrainConfig, data: Data) -> None:
    """Check that model, objective, training and data fit each other."""
    choose(model, data.config, config.objective).check(model, data)
    check_images(model, data)
    if data.longest("train") is None:
        check_length(model, config)
    else:
        check_rows(model, config, data)
    check_carry(model, config, data)


def check_length(model: Model.Config, config: TrainConfig) -> None:
    """Rows of a text must fit the positions there are."""
    limit = min_limit(model)
    if limit is not None and config.length > limit:
        raise ConfigError(
            f"train.length={config.length}: the model has {limit} learned positions; use a length up to {limit}, "
            f"or position.limit={config.length}"
        )
    if not carries(model, config):  # else rows go on from batch to batch
        model.check_length(config.length)


def check_rows(model: Model.Config, config: TrainConfig, data: Data) -> None:
    """Without state an episode or image is read whole, and must fit the positions there are."""
    if carries(model, config, data):
        return
    longest = data.longest("train") or config.length
    if config.grow_from is not None and config.grow_from > longest:
        raise ConfigError(
            f"train.grow_from={config.grow_from}: {data.row}s of {data.title} have up to {longest} tokens; rows "
            f"grow to whole {data.row}s, use less"
        )
    model.check_length(longest)
    longest, limit = max(longest, data.longest("valid") or 0), min_limit(model)
    if limit is not None and longest > limit:
        raise ConfigError(
            f"{data.title}: has {data.row}s of up to {longest} tokens, and the model {limit} learned positions; use "
            f"position.limit={longest}, or smaller {data.row}s"
        )


def carries(model: Model.Config, config: TrainConfig, data: Data | None = None) -> bool:
    """Whether state is carried from batch to batch."""
    return (model.carries if config.carry is None else config.carry) and not (data is not None and data.alone)


def check_carry(model: Model.Config, config: TrainConfig, data: Data | None = None) -> None:
    """A carried state must neither grow with each batch nor run out of positions."""
    if config.carry and data is not None and data.alone:
        raise ConfigError(f"train.carry: each {data.row} of {data.title} stands for itself; leave it out")
    if not carries(model, config, data):
        return
    for stack in model.stacks.values():
        if stack.position.end is not None:
            raise ConfigError(
                f"train.carry: positions are counted on from batch to batch, and {stack.position.tag} positions end; "
                "use train.carry=false, or a position without end, such as rotary"
            )
        if not stack.bounded:
            raise ConfigError(
                "train.carry: the model remembers all that it has read, more with every batch; use train.carry=false, "
                "or let it forget, by s.memory=segment or s.pattern=window"
            )


def check_memory(model: Model.Config, device: torch.device) -> None:
    """Weights, gradients and two moments of each must fit into the machine's memory."""
    params, there = model.cost().params, machine_memory()
    if device.type == "cpu" and there is not None and 4 * 4 * params > there:
        raise ConfigError(
            f"dim={model.dim}: {params:,} parameters need {16 * params / 2**30:,.0f} GiB to train, and this machine "
            f"has {there / 2**30:,.0f}; use a smaller dim, layout or vocabulary"
        )


def _starts_from(model: Model.Config, start: Model.Config) -> bool:
    """Whether all but the parts is the same, and each part may start from the one in its slot."""
    if any(not {"alphabet", "layout", "vary"} & set(path.split(".")) for path in start.diff(model)):
        return False
    stacks = zip(model.stacks.values(), start.stacks.values(), strict=True)
    return all(
        len(here.parts) == len(there.parts)
        and all(one.starts_from(other) for one, other in zip(here.parts, there.parts, strict=True))
        for here, there in stacks
    )


def check_start(model: Model.Config, start: Run) -> None:
    """Fine-tuning takes all weights, so the models must be alike, but for parts that may start from others."""
    there = start.model_config
    if not _starts_from(model, there):
        path, (before, here) = next(iter(there.diff(model).items()))
        raise ConfigError(
            f"train.start={start.path}: its model has {path}={before}, this one {here}; leave the model's keys as the "
            "run has them"
        )
    if not start.checkpoints:
        raise ConfigError(f"train.start={start.path}: the run has no checkpoint yet; resume it first")
    try:
        start.checkpoint()
    except ValueError:
        raise ConfigError(
            f"train.start={start.path}: its last checkpoint is damaged; {command('resume', start.path)} names one "
            "that is whole"
        ) from None
