"""Variant: one of the models that are compared, with its own changes to model and training."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sublayer.nn.config import Config, ConfigError
from sublayer.nn.model import Model
from sublayer.papers import named

OWN = ("lr", "warmup", "schedule", "optimizer", "clip", "smoothing")
"""Training keys that may differ between variants; all others must be equal, or the comparison would mean nothing."""


@dataclass(frozen=True)
class Variant:
    name: str
    """As shown in tables."""
    base: Model.Config
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Its own, to the base."""
    train: Mapping[str, Any] = field(default_factory=dict)
    """Its own, to train's fields."""

    @classmethod
    def of(cls, model: str | Model.Config | Variant, changes: Mapping[str, Any] = MappingProxyType({})) -> Variant:
        """A paper's name, a file or a config, with changes of its own: `Variant.of("gpt2", {"position": "rotary"})`."""
        if isinstance(model, Variant):
            return model
        kind = model if isinstance(model, str) else model.tag
        name = " ".join([kind, *(f"{key}={_plain(value)}" for key, value in changes.items())])
        base = named.config(model) if isinstance(model, str) else model
        own = {key.removeprefix("train."): value for key, value in changes.items() if key.startswith("train.")}
        for key in changes:
            _check_key(name, key)
        return cls(name, base, {key: value for key, value in changes.items() if not key.startswith("train.")}, own)


def _plain(value: Any) -> str:
    """As typed on the command line."""
    if isinstance(value, list | tuple):
        return ",".join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value.dump() if isinstance(value, Config) else value)


def _check_key(name: str, key: str) -> None:
    room, _, rest = key.partition(".")
    if room == "data" and rest:
        raise ConfigError(f"{name}: {key}: all variants read the same text; give data.… keys for all")
    if room == "train" and rest.split(".")[0] not in OWN:
        raise ConfigError(
            f"{name}: {key}: would not be the same for all; of train's keys a variant may have {', '.join(OWN)} of its "
            "own"
        )


def slugs(variants: Sequence[Variant]) -> list[str]:
    """Distinct names for folders."""
    found: list[str] = []
    for variant in variants:
        words = [Path(word).stem if word.endswith((".json", ".toml")) else word for word in variant.name.split()]
        slug = re.sub(r"[^A-Za-z0-9._+=]+", "-", "-".join(words)).strip("-.")[:60] or "variant"
        same = sum(re.fullmatch(re.escape(slug) + r"(~\d+)?", other, re.IGNORECASE) is not None for other in found)
        found.append(f"{slug}~{same + 1}" if same else slug)
    return found


def check_alike(variants: Sequence[Variant]) -> None:
    """Refuse a variant that is there twice, and kinds that learn different things."""
    names: set[str] = set()
    for variant in variants:
        if variant.name in names:
            raise ConfigError(f"{variant.name}: given twice; a comparison needs each variant once")
        if variant.base.tag != variants[0].base.tag:
            raise ConfigError(
                f"{variant.name}: {variant.base.tag} models and {variants[0].base.tag} models ({variants[0].name}) "
                "learn different things, so that their losses cannot be compared; compare each kind by itself"
            )
        names.add(variant.name)


def check_apart(variants: Sequence[Variant], configs: Sequence[Model.Config]) -> None:
    """Refuse two variants that are the same model, trained alike."""
    known: dict[str, str] = {}
    for variant, config in zip(variants, configs, strict=True):
        same = f"{config.hash} {sorted(variant.train.items())}"
        if same in known:
            raise ConfigError(f"{variant.name}: the same model as {known[same]}; leave out one of the two")
        known[same] = variant.name
