"""Variant: one of the models that are compared, with its own changes to model and training."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sublayer import models
from sublayer.nn.config import Config, ConfigError
from sublayer.nn.model import Model

OWN = ("lr", "warmup", "schedule", "optimizer", "clip", "smoothing")
"""Training keys that may differ between variants; all others must be equal, or the comparison would mean nothing."""


@dataclass(frozen=True)
class Variant:
    name: str
    """As shown in tables, where it was given; one that `of` made is shortened to what differs (`named_apart`)."""
    base: Model.Config
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Its own, to the base."""
    train: Mapping[str, Any] = field(default_factory=dict)
    """Its own, to train's fields."""
    words: tuple[str, ...] = ()
    """The words that its name was made of: model, then changes; empty where the name was given."""

    @classmethod
    def of(
        cls,
        model: str | Model.Config | Variant,
        changes: Mapping[str, Any] = MappingProxyType({}),
        name: str | None = None,
    ) -> Variant:
        """A model by its name or a config, with changes of its own: `Variant.of("gpt2", {"position": "rotary"})`.

        model: a paper, a file, the folder of a run, or a candidate of a search (`searches/x#294`). name: as shown in
        tables; made of what differs between the variants if not given.
        """
        if isinstance(model, Variant):
            return model
        kind = model if isinstance(model, str) else model.tag
        words = (kind, *(f"{key}={_plain(value)}" for key, value in changes.items()))
        called = name or " ".join(words)
        base = models.config(model) if isinstance(model, str) else model
        own = {key.removeprefix("train."): value for key, value in changes.items() if key.startswith("train.")}
        for key in changes:
            _check_key(called, key)
        rest = {key: value for key, value in changes.items() if not key.startswith("train.")}
        return cls(called, base, rest, own, () if name else words)


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


ALIKE = 16
"""Names that begin with so many equal characters look alike where they are cut."""


def named_apart(variants: Sequence[Variant]) -> list[Variant]:
    """The variants, those without a name of their own called by what differs between them: `gpt2`, `position=rotary`.

    Words that all of these share are left out; a variant with no other word has its model's name. Where names are still
    alike at the beginning, they are numbered.
    """
    made = [set(variant.words) for variant in variants if variant.words]
    shared = set.intersection(*made) if len(made) > 1 else set()
    names = [_shortened(variant, shared) for variant in variants]
    starts = Counter(name[:ALIKE] for name in names)
    return [
        replace(variant, name=f"{n} {name}" if variant.words and starts[name[:ALIKE]] > 1 else name)
        for n, (name, variant) in enumerate(zip(names, variants, strict=True), 1)
    ]


def _shortened(variant: Variant, shared: set[str]) -> str:
    if not variant.words:
        return variant.name
    return " ".join([word for word in variant.words if word not in shared] or variant.words[:1])


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
