"""A supernet's search from request to result: words searched, retrained, and compared with the base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from sublayer.data import DataConfig, Dataset, prepare
from sublayer.nas.supernet import searcher
from sublayer.nas.supernet.config import SearchConfig
from sublayer.nas.supernet.figures import figures
from sublayer.nas.supernet.folder import FIGURES, SupernetFolder
from sublayer.nas.supernet.loop import read_data, search_seed, settle_environment
from sublayer.nas.supernet.plan import Plan
from sublayer.nas.supernet.records import SupernetFigures
from sublayer.nas.supernet.reporters import SupernetReporter
from sublayer.nas.supernet.retraining import retrain, retrainings
from sublayer.nas.supernet.stack import over, stack_of
from sublayer.nn import layout as layouts
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.runs import environment
from sublayer.training import TrainConfig, request
from sublayer.training.distribution import World, started
from sublayer.training.vocabulary import fit_vocab

PAR = (2.0, 3.0, 5.0, 8.0)
DEEPEST, MOST_SEEDS = 10_000, 1_000
"""Largest numbers of sublayers and of seeds."""


def search(
    model: Model.Config,
    data: DataConfig,
    out: Path | str,
    config: SearchConfig,
    train: TrainConfig,
    *,
    changes: Mapping[str, Any] | None = None,
    sublayers: int | None = None,
    seeds: int | Sequence[int] = 3,
    par: Sequence[float] | None = None,
    retrained: bool = True,
    reporter: SupernetReporter | None = None,
) -> SupernetFigures:
    """Search a base's layout by a supernet, retrain what was found beside the base, and return figures.json.

    The same request in the same folder continues where it stopped. `train` is how weights are trained, in the search,
    which has a number of steps of its own, and after it. sublayers: default as many as the base has. seeds: the seeds,
    or their number, counted from the training's. par: coefficients p of PAR to train beside; default those of 2, 3, 5,
    8 that the number of sublayers allows.
    """
    folder, reporter = SupernetFolder(Path(out)), reporter or SupernetReporter()
    seeds = read_seeds(seeds, train.seed)
    text = check(model, data, folder.path, train)
    base = stretched(fit_vocab(model, changes or {}, text), sublayers)
    check_base(base, config, train, text, retrained)
    par = coefficients(stack_of(base).layout, par) if retrained else ()
    read = {"model": base.dump(), "data": text.config.dump(), "text": text.hash}
    request = {**read, "search": config.dump(), "train": train.dump(), "seeds": list(seeds), "par": list(par)}
    folder.check(request)
    if train.threads:
        torch.set_num_threads(train.threads)
    with folder.held():
        if not folder.check(request):  # another process may have begun it meanwhile
            folder.begin(request, environment(World(train.device).device), text.tokenizer)
        folder.write_request(request)
        return _search(folder, seeds, par, retrained, reporter)


def _search(
    folder: SupernetFolder, seeds: Sequence[int], par: Sequence[float], retrained: bool, reporter: SupernetReporter
) -> SupernetFigures:
    settle_environment(folder)
    data, base, letters = read_data(folder), folder.base, folder.search.letters
    results = [search_seed(folder, seed, data, reporter) for seed in seeds]
    scores: list[dict[str, Any]] = []
    planned = list(retrainings(stack_of(base).layout, results, seeds, par)) if retrained else []
    reporter.retrainings([one.name for one in planned])
    for one in planned:
        scores.append(retrain(folder, one))
        reporter.scored(scores[-1])
    result = figures(stack_of(base), letters, results, scores)
    result.write(folder.path / FIGURES)
    return result


def check(model: Model.Config, data: DataConfig, out: Path, train: TrainConfig) -> Dataset:
    """The prepared text; what is wrong with the request otherwise is refused first."""
    if started() > 1:
        raise ValueError("supernet: a search runs in one process; start it without torchrun")
    if train.start is not None:
        raise ConfigError(f"train.start={train.start}: a search begins with fresh weights; leave it out")
    if train.stages:
        raise ConfigError("train.stages: a search of sublayers has two phases of its own; leave stages out")
    request.check_out(out, data)
    request.check_kind(model)
    return prepare(data)


def check_base(base: Model.Config, config: SearchConfig, train: TrainConfig, text: Dataset, scored: bool) -> None:
    """Refuse impossible pairs, and texts too short, before a folder is made."""
    request.check_head(base)
    request.check_length(base, train)
    request.check_carry(base, train)
    whole = over(base, config.letters)
    request.check_memory(whole, World(train.device).device)
    roles, texts = searcher.roles(train), searcher.divide(text.train, config.share)
    batches = {role: searcher.batches(whole, roles[role], part) for role, part in texts.items()}
    if not Plan.of(config, searcher.epoch(batches["weights"])).stage:
        raise ConfigError(
            f"search.steps={config.steps}: none is left for the architecture, as the warm-up takes {config.warmup:.0%} "
            "and the weights come first in each round; give more, or a smaller search.round"
        )
    if scored and len(text.valid) < 2:
        raise ValueError(
            "data: there is no valid split to compare retrained models on; set data.splits.valid=0.05, or use "
            "--no-retrain"
        )


def stretched(base: Model.Config, sublayers: int | None) -> Model.Config:
    """The base with its word repeated or cut to this number of sublayers."""
    if sublayers is None:
        return base
    if not 2 <= sublayers <= DEEPEST:
        raise ConfigError(f"sublayers={sublayers}: expected 2 to {DEEPEST:,} to search the order of")
    word = layouts.expand(stack_of(base).layout)
    return base.but(layout=layouts.spell((word * -(-sublayers // len(word)))[:sublayers]))


def read_seeds(given: int | Sequence[int], first: int) -> Sequence[int]:
    """`given` seeds from the first on, or those given."""
    count = given if isinstance(given, int) else len(given)
    if not 1 <= count <= MOST_SEEDS:
        raise ValueError(f"--seeds {count}: expected 1 to {MOST_SEEDS:,} searches")
    return range(first, first + given) if isinstance(given, int) else given


def coefficients(layout: str, par: Sequence[float] | None) -> Sequence[float]:
    """The coefficients given, which must be possible; by default those of PAR that are."""
    if par is not None:
        for p in par:
            layouts.par(layout, p)
        return par
    count = len(layouts.expand(layout))
    possible = [p for p in PAR if {"s", "f"} <= set(layout) and 1 <= round(count / p) < count]
    return tuple({layouts.par(layout, p): p for p in reversed(possible)}.values())[::-1]
