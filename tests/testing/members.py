"""Every member of every family, from the registries: a new one is tried by existing."""

from collections.abc import Iterator

import sublayer.nas.supernet.stack  # noqa: F401  its kind of stack is registered whatever else was imported
from sublayer.nn.attention import Pattern, Span
from sublayer.nn.attention.kernel import Kernel
from sublayer.nn.config import Config
from sublayer.nn.embedding import Embedding, Head
from sublayer.nn.memory import Memory
from sublayer.nn.memory.compressor import Compressor
from sublayer.nn.model import Model
from sublayer.nn.part import Part
from sublayer.nn.position import Position, RotaryScaling
from sublayer.nn.residual import Add, Norm, Residual
from sublayer.nn.stack import Stack
from sublayer.nn.stack.compose import Compose
from sublayer.testing import LAWS
from sublayer.testing.small import small_member
from sublayer.testing.surroundings import DECODER, ENCODER, FAMILIES, _translator

CLUSTERS = {"cutoffs": [17, 37]}
BASES = [
    Part,
    Position,
    RotaryScaling,
    Pattern,
    Kernel,
    Memory,
    Compressor,
    Span,
    Residual,
    Norm,
    Add,
    Embedding,
    Head,
    Stack,
    Compose,
    Model,
]
ETC = {
    **ENCODER["stack"],
    "kind": "etc",
    "segment": 4,
    "alphabet": {**ENCODER["stack"]["alphabet"], "s": {"kind": "etc", "heads": 4, "radius": 2}},
}
SETTINGS: dict[str, dict[str, dict]] = {
    "rotary_scaling": {name: {"factor": 2.0, "length": 5} for name in ("dynamic", "yarn", "llama3")}
    | {"linear": {"factor": 2.0}},
    "span": {"adaptive": {"limit": 4, "ramp": 2, "start": 0.25}},
    "embedding": {"adaptive": {**CLUSTERS, "factor": 2}, "factorised": {"rank": 12}},
    "head": {"adaptive_softmax": {**CLUSTERS, "factor": 2}},
    "stack": {name: DECODER["stack"] | {"kind": name} for name in Stack.Config.registry} | {"etc": ETC},
    "model": {"decoder": DECODER, "encoder": ENCODER, "encoder_decoder": _translator()},
}
"""Settings of kinds that have required fields, or defaults that a small model refuses."""


def ours(base: type) -> dict[str, type[Config]]:
    """The registered kinds of a family that the package itself brings."""
    kinds = base.Config.registry.items()
    return {tag: kind for tag, kind in kinds if kind.__module__.startswith("sublayer.")}


def members() -> dict[str, Config]:
    """`family-kind` → the member, small."""
    return {f"{base.Config.family}-{tag}": _member(kind) for base in BASES for tag, kind in ours(base).items()}


def _member(kind: type[Config]) -> Config:
    settings = SETTINGS.get(kind.family, {}).get(kind.tag, {})
    return kind.parse({**settings, "kind": kind.tag}) if settings else small_member(kind.parse(kind.tag))


def spread(number: int, models: dict[str, Model.Config], share: int) -> Iterator[tuple[str, Model.Config, bool]]:
    """Laws spread over models: one of `share` laws, each in another of the models, and one of three on a long text.
    `number`: of the member, so that neighbours get different laws."""
    tried = list(models.values())
    for n, law in enumerate(LAWS):
        turn = n + number
        if turn % share == 0:
            yield law, tried[(turn // share) % len(tried)], turn % 3 == 0


def kinds_in(config: Config) -> set[tuple[str, str]]:
    """Family and kind of a config and of all that is inside it."""
    found = {(config.family, config.tag)}
    for name in type(config).model_fields:
        value = getattr(config, name)
        for inner in value.values() if isinstance(value, dict) else (value,):
            found |= kinds_in(inner) if isinstance(inner, Config) else set()
    return found


def all_kinds() -> set[tuple[str, str]]:
    return {(base.Config.family, tag) for base in BASES for tag in ours(base)}


assert {base.Config.family for base in BASES} <= FAMILIES.keys()
