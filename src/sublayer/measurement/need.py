"""What a pass needs at least, counted from the config: what does not fit this machine is refused before it is tried.

Only what is certainly there at one and the same time is counted, so what is let through may still be too large.
"""

from __future__ import annotations

from sublayer.measurement.setting import Setting
from sublayer.nn.attention import MultiHead
from sublayer.nn.config import ConfigError
from sublayer.nn.embedding.linear import MatrixHead
from sublayer.nn.feedforward import Dense, Glu
from sublayer.nn.memory import NoMemory
from sublayer.nn.model import Encoder, Model
from sublayer.nn.part import Part, Slot
from sublayer.nn.position import RelativeXL
from sublayer.nn.stack import Plain, Stack
from sublayer.runs.environment import memory as machine_memory

FLOAT = 4
"""Bytes of a number: models are measured in fp32."""


def check(config: Model.Config, setting: Setting) -> None:
    """Refuse a model whose pass is larger than all memory of this machine."""
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


def activations(config: Model.Config, setting: Setting) -> int:
    """Bytes beside the weights. What a segment remembers is read first, in a pass of its own."""
    remembered = setting.remembered(config)
    passes = [(setting.length, remembered), *([(remembered, 0)] if remembered else [])]
    return max(FLOAT * _pass(config, setting, *one) for one in passes)


def _pass(config: Model.Config, setting: Setting, length: int, remembered: int) -> int:
    """Numbers held when most are, in a pass over `length` tokens of each row."""
    stacks = [_stack(stack, config.dim, setting, length, remembered) for stack in config.stacks.values()]
    return max(_scores(config, setting.batch * length), *stacks)


def _scores(config: Model.Config, tokens: int) -> int:
    """An encoder is asked for the scores of all places; others for one place's, or for a few at a time."""
    whole = isinstance(config, Encoder.Config) and issubclass(config.head.owner, MatrixHead)
    return tokens * config.vocab if whole else 0


def _stack(stack: Stack.Config, dim: int, setting: Setting, length: int, remembered: int) -> int:
    """Each sublayer beside what those before it have left for the next segment."""
    rows, slot = setting.batch, stack.slot(dim)
    kept, highest = 0, rows * length * dim
    for part in stack.parts if stack.owner is Plain else ():
        highest = max(highest, kept + _formed(part, slot, rows, length, remembered))
        kept += rows * _left(part, dim, length, remembered, setting.frozen)
    return max(highest, kept)


def _formed(part: Part.Config, slot: Slot, rows: int, length: int, remembered: int) -> int:
    """Queries, keys and values, and scores where they are formed in the open; the inner layer."""
    if part.owner is MultiHead:
        assert isinstance(part, MultiHead.Config)
        (H, G, K), position = part.sizes(slot.dim), part.position(slot).owner
        # A bias may be one for all rows.
        alike = not position.acts_on_weights and not issubclass(position, RelativeXL)
        scores = 0 if not position.acts_on_scores else H * length * _attended(part, length, remembered)
        return rows * length * (H + 2 * G) * K + (1 if alike else rows) * scores
    if part.owner in (Dense, Glu):
        assert isinstance(part, Dense.Config | Glu.Config)
        return rows * length * part.width(slot.dim) * (2 if part.owner is Glu else 1)
    return 0


def _left(part: Part.Config, dim: int, length: int, remembered: int, frozen: bool) -> int:
    """Of each row, for the next segment."""
    if part.owner is not MultiHead:
        return 0
    assert isinstance(part, MultiHead.Config)
    _, G, K = part.sizes(dim)
    wide = 2 * G * K
    if isinstance(part.memory, NoMemory.Config):
        wide = 0
    elif part.memory.hidden:
        wide = min(dim, wide) if frozen else dim
    return wide * _attended(part, length, remembered)


def _attended(part: MultiHead.Config, length: int, remembered: int) -> int:
    return length + (remembered if part.reach is None else min(remembered, part.reach))


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
