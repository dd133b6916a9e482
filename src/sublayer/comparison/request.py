"""The request for a comparison: models with their sizes, budgets and seeds, checked before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sublayer.comparison import width
from sublayer.comparison.variant import Variant, check_alike, check_apart, named_apart, slugs
from sublayer.data import Data, prepare
from sublayer.keys import absolute, merged
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.objectives import Objective
from sublayer.runs.wording import plural
from sublayer.training import TrainConfig
from sublayer.training import request as requests
from sublayer.training.distribution import World
from sublayer.training.images import fit_length
from sublayer.training.trainee import make_batches
from sublayer.training.vocabulary import fit_vocab

BUDGETS = ("steps", "tokens", "minutes")


@dataclass(frozen=True)
class ResolvedVariant:
    """A variant with everything that its runs need."""

    name: str
    slug: str
    model: Model.Config
    train: TrainConfig
    """All but the seed."""

    def dump(self) -> dict[str, Any]:
        return {"name": self.name, "slug": self.slug, "model": self.model.dump(), "train": self.train.dump()}


@dataclass(frozen=True)
class ComparisonRequest:
    variants: tuple[ResolvedVariant, ...]
    data: Data.Config
    text: str
    """The hash of the text."""
    seeds: tuple[int, ...]
    equal_params: int | None = None
    """Number of parameters that every model should have; None: its own."""
    lrs: tuple[float, ...] = ()
    """Learning rates to try with the first seed; each variant takes its best."""

    def task(self, variant: ResolvedVariant, out: Path, seed: int, lr: float | None = None) -> dict[str, Any]:
        """One training, for `executors.trainings`."""
        train = variant.train.but(seed=seed) if lr is None else variant.train.but(seed=seed, lr=lr)
        plain = {"model": variant.model.dump(), "data": self.data.dump(), "train": train.dump(), "text": self.text}
        return {**plain, "changes": {"vocab": variant.model.vocab}, "out": str(out)}

    def called_as(self, before: Mapping[str, Any], given: Sequence[str]) -> ComparisonRequest:
        """With the names and folders that the same variants have in an earlier request: names may have been made in
        another way then. given: names that the user chose, which must be the same."""
        known = before.get("variants") or []
        pairs = list(zip(self.variants, known, strict=False))
        if len(known) != len(self.variants) or any({**one.dump(), **_called(there)} != there for one, there in pairs):
            return self  # another comparison, which is refused elsewhere
        for one, there in pairs:
            if one.name in given and one.name != there["name"]:
                raise ValueError(
                    f"{one.name}: this comparison was begun with the name {there['name']!r} for it; use that one, or "
                    "choose another folder"
                )
        return replace(self, variants=tuple(replace(one, **_called(there)) for one, there in pairs))

    def dump(self) -> dict[str, Any]:
        return {
            "variants": [variant.dump() for variant in self.variants],
            "data": self.data.dump(),
            "text": self.text,
            "seeds": list(self.seeds),
            "equal_params": self.equal_params,
            "lrs": list(self.lrs),
        }


def _called(variant: Mapping[str, Any]) -> dict[str, Any]:
    return {name: variant[name] for name in ("name", "slug") if name in variant}


def data_config(data: str | Data.Config, changes: Mapping[str, Any]) -> Data.Config:
    """A text, a task or images by name, with changes; its path is absolute, so that any folder finds it."""
    found = Data.Config.guess(absolute(data)) if isinstance(data, str) else data
    return found.override(changes, "data") if changes else found


def resolve(
    variants: Sequence[Variant],
    data: Data.Config,
    out: Path,
    model: Mapping[str, Any],
    train: Mapping[str, Any],
    *,
    seeds: Sequence[int],
    equal_params: int | str | None = None,
    lrs: Sequence[float] = (),
) -> ComparisonRequest:
    """The request with every variant's model and training worked out. model, train: changes for all variants."""
    check(variants, data, train, seeds, lrs)
    requests.check_out(out, data)
    text = prepare(data)
    if len(text.valid) < 2:
        raise ValueError(
            f"{text.title}: valid holds {plural(len(text.valid), 'token')}, and variants are compared by it; give a "
            "longer text"
        )
    common = budgeted(TrainConfig(), train, text)
    for seed in seeds:
        common.override({"seed": seed}, "train")
    models = [fitted(variant, model, text, _train_config(variant, train).objective) for variant in variants]
    target = models[0].cost().params if equal_params == "first" else _number(equal_params)
    if target is not None:
        asked = enumerate(zip(variants, models, strict=True))
        own = equal_params == "first"
        models = [made if own and not n else equalled(variant, made, target) for n, (variant, made) in asked]
    check_apart(variants, models)
    trains = [_named(variant, lambda v=variant: common.override(v.train, "train")) for variant in variants]
    for variant, made, how in zip(variants, models, trains, strict=True):
        _named(variant, lambda made=made, how=how: check_trains(made, how, text))
    shown = named_apart(variants)
    resolved = map(ResolvedVariant, (variant.name for variant in shown), slugs(shown), models, trains)
    return ComparisonRequest(tuple(resolved), text.config, text.hash, tuple(seeds), target, tuple(lrs))


def check(
    variants: Sequence[Variant],
    data: Data.Config,
    train: Mapping[str, Any],
    seeds: Sequence[int],
    lrs: Sequence[float],
) -> None:
    if len(variants) < 2:
        raise ValueError(
            f"{plural(len(variants), 'variant')}: a comparison needs at least two; give another, such as "
            "'gpt2 position=rotary', or use sublayer train for one"
        )
    for variant in variants:
        requests.check_kind(variant.base, data, _train_config(variant, train))
    check_alike(variants)
    if not seeds:
        raise ValueError("seeds: none; give at least one, and three or more for a verdict")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds: {', '.join(map(str, seeds))} holds one twice; give each once")
    if len(set(lrs)) < len(lrs):
        raise ValueError(f"lrs: {', '.join(f'{lr:g}' for lr in lrs)} holds one twice; give each once")
    if "seed" in train:
        raise ConfigError("train.seed: a comparison trains each variant with several seeds; use --seeds")
    if lrs and (own := [variant for variant in variants if "lr" in variant.train]):
        raise ConfigError(f"{own[0].name}: has a train.lr of its own, and learning rates are to be tried; drop one")
    if not any(train.get(name) for name in BUDGETS):
        raise ConfigError(
            "the budget is missing: give what each variant may train, by --tokens 1M, --steps 1000 or --minutes 5"
        )


def budgeted(config: TrainConfig, changes: Mapping[str, Any], text: Data) -> TrainConfig:
    """Where only tokens or minutes are given, steps are unlimited; validation still runs ten times."""
    made = config.override({**({} if "steps" in changes else {"steps": None}), **changes}, "train")
    made = fit_length(made, text)
    if made.tokens and not made.steps and made.eval_every is None:
        steps = made.tokens // (made.batch * made.length * made.accumulate)
        return made.but(eval_every=made.tenth_of(steps))
    return made


def fitted(
    variant: Variant, changes: Mapping[str, Any], text: Data, objective: Objective.Config | None = None
) -> Model.Config:
    """With the text's vocabulary, the changes for all, then the variant's own; its layout rules stand on the former."""
    return _named(variant, lambda: fit_vocab(variant.base, merged(changes, variant.changes), text, objective))


def _train_config(variant: Variant, train: Mapping[str, Any]) -> TrainConfig:
    """How a variant is trained, as far as its objective goes."""
    keys = {key: value for key, value in {**train, **variant.train}.items() if key.split(".")[0] == "objective"}
    return TrainConfig().override(keys, "train")


def equalled(variant: Variant, model: Model.Config, target: int) -> Model.Config:
    return _named(variant, lambda: width.of_params(model, target))


def check_trains(model: Model.Config, config: TrainConfig, text: Data) -> None:
    """Refuse whatever a training would refuse."""
    requests.check_pair(model, config, text)
    world = World(config.device)
    requests.check_memory(model, world.device)
    make_batches(model, config, text, world, None)


def _named(variant: Variant, work: Any) -> Any:
    """Errors name the variant."""
    try:
        return work()
    except ValueError as error:
        raise ConfigError(f"{variant.name}: {error}") from None


def _number(equal_params: int | str | None) -> int | None:
    if equal_params is None or (isinstance(equal_params, int) and equal_params > 0):
        return equal_params  # pyright: ignore[reportReturnType]
    raise ValueError(f"equal_params={equal_params!r}: expected 'first' or a number of parameters, such as 1000000")


def predicts_text(model: Model.Config) -> bool:
    """Whether it predicts the next token of a text by itself: its loss has a perplexity, and segments can be scored."""
    return model.writes and not model.needs_source and model.head.speaks  # pyright: ignore[reportAttributeAccessIssue]
