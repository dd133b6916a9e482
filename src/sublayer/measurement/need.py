"""The least memory that a pass needs, counted from the config: what does not fit this machine is refused at once.

Only what is certainly held at one time is counted, so a model that passes may still be too large.
"""

from __future__ import annotations

from collections.abc import Sequence

from sublayer.measurement.setting import Setting
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.nn.part import Work
from sublayer.runs.environment import memory as machine_memory

FLOAT = 4
"""Bytes of a number: models are measured in fp32."""


def check(config: Model.Config, setting: Setting) -> None:
    """Refuse a model whose pass needs more than the whole memory of this machine."""
    params, there = config.cost().params, machine_memory()
    if there is None:
        return
    if FLOAT * params > there:
        raise ConfigError(
            f"dim={config.dim}: {params:,} parameters are {_gib(FLOAT * params)}, and this machine has {_gib(there)}; "
            "measure a smaller model"
        )
    needed = FLOAT * params + activations(config, setting)
    if setting.device == "cpu" and needed > there:
        before = f", memory={remembered}" if (remembered := setting.remembered(config)) else ""
        raise ConfigError(
            f"length={setting.length}{before}, batch={setting.batch}: a pass needs {_gib(needed)} or more, and this "
            f"machine has {_gib(there)}; measure a smaller length, batch or model"
        )


def check_together(configs: Sequence[Model.Config], setting: Setting) -> None:
    """Refuse models that do not fit this machine at one time."""
    there = machine_memory()
    needed = FLOAT * sum(config.cost().params for config in configs)
    needed += max((activations(config, setting) for config in configs), default=0)
    if there is not None and len(configs) > 1 and needed > there:
        raise ConfigError(
            f"{len(configs)} models: together they need {_gib(needed)} or more, and this machine has {_gib(there)}; "
            "measure fewer at a time"
        )


def activations(config: Model.Config, setting: Setting) -> int:
    """Bytes beside the weights. Remembered tokens are read first, in a pass of their own."""
    remembered = setting.remembered(config)
    passes = [(setting.length, remembered), *([(remembered, 0)] if remembered else [])]
    return max(FLOAT * _pass(config, setting, *one) for one in passes)


def _pass(config: Model.Config, setting: Setting, length: int, remembered: int) -> int:
    """Numbers held at one time in a pass over `length` tokens of each row."""
    # A frozen state is not frozen yet in the pass that fills it: the smaller of both is certain.
    works = [Work(length, remembered, frozen=frozen) for frozen in {False, setting.frozen}]
    stacks = [
        min(stack.activation_size(config.dim, work, setting.batch) for work in works)
        for stack in config.stacks.values()
    ]
    return max(_scores(config, setting.batch * length), *stacks)


def _scores(config: Model.Config, tokens: int) -> int:
    """A model that does not write is asked for the scores of all tokens; others for a few at a time."""
    head = config.head  # pyright: ignore[reportAttributeAccessIssue] (every model has one; the base declares no field)
    return tokens * config.vocab if not config.writes and head.speaks else 0


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
