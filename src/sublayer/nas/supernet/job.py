"""From what a user asks to words that were searched, retrained and set beside the base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from sublayer.data import DataConfig, Dataset, prepare
from sublayer.nas.supernet import searcher
from sublayer.nas.supernet.config import SearchConfig
from sublayer.nas.supernet.figures import figures
from sublayer.nas.supernet.folder import FIGURES, Folder
from sublayer.nas.supernet.loop import read_data, search_seed, settle_environment
from sublayer.nas.supernet.plan import Plan
from sublayer.nas.supernet.reporters import ProgressReporter
from sublayer.nas.supernet.retraining import candidates, retrain
from sublayer.nas.supernet.stack import over
from sublayer.nn import layout as layouts
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.nn.model.single import SingleStack
from sublayer.runs import environment, sealed_json
from sublayer.training import TrainConfig, request
from sublayer.training.distribution import World, started
from sublayer.training.vocabulary import fit_vocab

PAR = (2.0, 3.0, 5.0, 8.0)


def search(
    model: Model.Config,
    data: DataConfig,
    out: Path | str,
    config: SearchConfig,
    train: TrainConfig,
    *,
    changes: Mapping[str, Any] | None = None,
    places: int | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    par: Sequence[float] | None = None,
    retrained: bool = True,
    tell: ProgressReporter | None = None,
) -> dict[str, Any]:
    """Search a base's layout by a supernet, retrain what was found, and say how it compares; returns figures.json.

    The same request in the same folder goes on where it stopped. `train` is how weights are trained, in the search,
    which has a number of steps of its own, and after it. places: as many as the base has, if not given. par:
    coefficients p to train beside; those of 2, 3, 5, 8 that the places allow, if not given.
    """
    folder, tell = Folder(Path(out)), tell or ProgressReporter()
    text = check(model, data, folder.path, train)
    base = stretched(fit_vocab(model, changes or {}, text), places)
    check_base(base, config, train, text, retrained)
    par = coefficients(base.stack.layout, par) if retrained else ()
    told = {"model": base.dump(), "data": text.config.dump(), "text": text.hash}
    asked = {**told, "search": config.dump(), "train": train.dump(), "seeds": list(seeds), "par": list(par)}
    folder.check(asked)
    if train.threads:
        torch.set_num_threads(train.threads)
    with folder.held():
        if not folder.check(asked):  # another process may have begun it meanwhile
            folder.begin(asked, environment(World(train.device).device), text.tokenizer)
        folder.ask(asked)
        try:
            return _search(folder, seeds, par, retrained, tell)
        finally:
            tell.stop()


def _search(
    folder: Folder, seeds: Sequence[int], par: Sequence[float], retrained: bool, tell: ProgressReporter
) -> dict[str, Any]:
    settle_environment(folder)
    data, base, letters = read_data(folder), folder.base, folder.search.letters
    results = [search_seed(folder, seed, data, tell) for seed in seeds]
    scores: list[dict[str, Any]] = []
    made = list(candidates(base.stack.layout, results, seeds, par)) if retrained else []
    for number, candidate in enumerate(made, 1):
        tell.retrain(candidate.name, candidate.layout, number, len(made))
        scores.append(retrain(folder, candidate))
        tell.scored(scores[-1])
    shown = figures(base.stack, letters, results, scores)
    sealed_json.write(folder.path / FIGURES, shown)
    return shown


def check(model: Model.Config, data: DataConfig, out: Path, train: TrainConfig) -> Dataset:
    """The text, once what can be said without it is said."""
    if started() > 1:
        raise ValueError("supernet: a search runs in one process; start it without torchrun")
    if train.start is not None:
        raise ConfigError(f"train.start={train.start}: a search begins with fresh weights; leave it out")
    request.check_out(out, data)
    request.check_kind(model)
    return prepare(data)


def check_base(base: SingleStack.Config, config: SearchConfig, train: TrainConfig, text: Dataset, scored: bool) -> None:
    """Impossible pairs, and texts too short, said before a folder is made."""
    request.check_head(base)
    request.check_length(base, train)
    request.check_carry(base, train)
    whole = over(base, config.letters)
    request.check_memory(whole, World(train.device).device)
    roles, texts = searcher.roles(train), searcher.divide(text.train, config.share)
    batches = {role: searcher.batches(whole, roles[role], part) for role, part in texts.items()}
    if not Plan.of(config, searcher.epoch(batches["weights"])).stage:
        raise ConfigError(
            f"search.steps={config.steps}: none is left for the architecture, which waits for {config.still:.0%} of "
            "them and comes last in each round; give more, or a smaller search.round"
        )
    if scored and len(text.valid) < 2:
        raise ValueError(
            "data: there is no valid split to compare retrained models on; set data.splits.valid=0.05, or leave the "
            "retraining out"
        )


def stretched(base: Model.Config, places: int | None) -> SingleStack.Config:
    """The base with its word repeated, or cut, to so many places."""
    assert isinstance(base, SingleStack.Config)
    if places is None:
        return base
    if places < 2:
        raise ConfigError(f"places={places}: a layout to search has at least 2")
    word = layouts.expand(base.stack.layout)
    return base.but(layout=layouts.spell((word * -(-places // len(word)))[:places]))


def coefficients(layout: str, par: Sequence[float] | None) -> Sequence[float]:
    """Those asked for, which must be possible; if none was said, those that are."""
    if par is not None:
        for p in par:
            layouts.par(layout, p)
        return par
    places = len(layouts.expand(layout))
    possible = [p for p in PAR if {"s", "f"} <= set(layout) and 1 <= round(places / p) < places]
    return tuple({layouts.par(layout, p): p for p in reversed(possible)}.values())[::-1]
