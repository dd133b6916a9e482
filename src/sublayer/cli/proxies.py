"""`sublayer proxies`: which number tells best, before training, how good a model will be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from sublayer.nas.proxies.study import Request, Study

STEPS = 200
"""Of each model, unless train.steps says otherwise."""


def proxies(
    name: str = "",
    /,
    *changes: str,
    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = "stdlib",
    out: str = "",
    models: int = 20,
    proxy: Annotated[list[str] | None, Parameter(negative="")] = None,
    seed: int = 0,
    latency: Annotated[bool, Parameter(negative="")] = False,
    workers: int = 1,
    ray: str = "",
    table: str = "",
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """How well each proxy ranks models before they are trained: parameters, FLOPs, SNIP, SynFlow and others.

    A sample of a space is trained for a small budget; a rank correlation of 1 is a proxy that puts it in the true
    order. The same command goes on with what was stopped. With --table, models that others have trained are ranked.

    Examples: sublayer proxies gpt2 dim=64..192/32 layout='(sf)x2|(sf)x4' f.inner='each(128|256|512)' s.heads=4
    --data book.txt --out proxies/book --models 20 train.steps=300 · sublayer proxies lts-gpt2 'dim=64..256/64'
    layout='(sf)x2|(sf)x3' --data book.txt --latency · sublayer proxies --table models.csv --json

    Parameters
    ----------
    name
        A space (see sublayer search), or a paper's name or a config file with something to choose in changes.
    changes
        key=value as for sublayer train; dim=64..192/32 and s.heads='2|4' choose, f.inner='each(128|256)' does so for
        each layer, 'f.inner>1.7*dim' is a rule.
    data
        What the models are trained on: a file, a folder, …
    out
        The folder of the study; proxies/NAME if not given. With --table, where to write ranking.json, if anywhere.
    models
        How many to train.
    proxy
        Only this one; may be given more than once.
    seed
        Of the sample, and of the weights that proxies look at.
    latency
        Measure each model on this machine, too, and tell how far the proxy's front is from the true one.
    workers
        How many models are scored and trained at once.
    ray
        A Ray cluster to do so: auto, or HOST:PORT.
    table
        A CSV with a row for each trained model: ppl, proxies by name (decoder_params, total_params, …); set,
        latency_ms and others if known. Each set is ranked by itself.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON for other programs.
    """
    import_torch()
    from sublayer.cli.words import load_plugins, print_json

    load_plugins(plugin or [])
    if table:
        if name:
            raise ValueError(f"--table ranks trained models, so {name!r} has nothing to add; leave one of them out")
        if proxy or latency:
            raise ValueError("--table ranks by its own columns; leave --proxy and --latency out")
        ranking = _of_table(table, out)
    elif name:
        request = _request(name, changes, data, models, seed, tuple(proxy or ()))
        ranking = _of_study(request, out or f"proxies/{Path(name).stem}", latency, workers, ray, plugin or [])
    else:
        raise ValueError("proxies: name a space or a paper to sample from, or give a ready table with --table FILE")
    print_json(ranking) if json else _print_tables(ranking)


def _of_table(file: str, out: str) -> dict[str, Any]:
    from sublayer.nas.proxies import judging, table
    from sublayer.runs import sealed_json

    ranking = judging.judge(table.read(file), file)
    if out:
        sealed_json.write(Path(out) / "ranking.json", ranking)
    return ranking


def _request(name: str, words: tuple[str, ...], data: str, models: int, seed: int, named: tuple[str, ...]) -> Request:
    from sublayer.cli.words import read_overrides
    from sublayer.data import DataConfig, prepare
    from sublayer.keys import absolute, split
    from sublayer.nas import spaces
    from sublayer.nas.choice import chooses
    from sublayer.nas.proxies.study import Request
    from sublayer.training import TrainConfig

    rules = [word for word in words if "=" not in word and ("<" in word or ">" in word)]
    # A choice is text until it is read: its commas are not those of a list.
    chosen = {key: text for key, _, text in (word.partition("=") for word in words) if chooses(text)}
    others = (word for word in words if word not in rules and word.partition("=")[0] not in chosen)
    model, of = split(read_overrides(tuple(others)))
    space = spaces.read(name, {**model, **chosen}, rules)
    train = TrainConfig(steps=STEPS).override(of["train"], "train")
    if train.eval_every is None and train.steps:  # scoring more often would take longer than the training
        train = train.but(eval_every=train.steps)
    text = DataConfig.guess(absolute(data))
    text = prepare(text.override(of["data"], "data") if of["data"] else text).config
    return Request(space, text, train, models, seed, named)


def _of_study(request: Request, out: str, latency: bool, workers: int, ray: str, plugins: list[str]) -> dict[str, Any]:
    from sublayer import executors
    from sublayer.nas.proxies.study import Study

    with executors.pool(ray or None, workers, plugins) as pool:
        study = Study.begin(out, request)
        with _bar("scores", request.models) as forward:
            study.score(pool, forward)
        with _bar("trainings", request.models) as forward:
            study.train(pool, forward)
    ranking = study.finish()
    if not latency:
        return ranking
    _measure(study, plugins)
    return study.finish()


def _measure(study: Study, plugins: list[str]) -> None:
    from sublayer.measurement import Setting, measure

    setting = Setting(length=study.request.train.length)
    with _bar("latencies", study.request.models) as forward:
        study.measure(lambda config: measure([config], setting, plugins=plugins)[0].latency, forward)


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """On a terminal, how many are done."""
    if not sys.stderr.isatty():
        yield lambda number: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda number: bar.advance(task)


def _print_tables(ranking: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sublayer.runs.wording import plural

    console = Console()
    for models in ranking["sets"]:
        dropped = f", {models['dropped']} without a perplexity left out" if models["dropped"] else ""
        console.print(f"{models['set']}: {plural(models['models'], 'model')}{dropped}", highlight=False, markup=False)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        rows = [_figures(proxy) for proxy in models["proxies"]]
        known = [n for n in range(len(TITLES)) if any(row[n] != "—" for row in rows)]
        table.add_column("proxy", no_wrap=True)
        for n in known:
            table.add_column(TITLES[n], justify="right", no_wrap=True)
        for proxy, row in zip(models["proxies"], rows, strict=True):
            table.add_row(Text(f"{proxy['name']} {'↑' if proxy['higher'] else '↓'}"), *(row[n] for n in known))
        console.print(table)
        console.print()
    for one in ranking["skipped"]:
        console.print(f"{one['set']}: {plural(one['models'], 'model')}, too few to rank", highlight=False, markup=False)


TITLES = ("Spearman", "95 %", "top 10 %", "30 %", "50 %", "front off", "s/model")


def _figures(proxy: dict[str, Any]) -> list[str]:
    def told(value: float | None, form: str) -> str:
        return "—" if value is None else format(value, form)

    between = "—" if proxy["low"] is None else f"{proxy['low']:.2f}…{proxy['high']:.2f}"
    common = list(proxy["common"].values()) if proxy["common"] else [None] * 3
    shares = [told(value, ".0%") for value in common]
    return [
        told(proxy["spearman"], ".3f"),
        between,
        *shares,
        told(proxy["front_distance"], ".1%"),
        told(proxy["seconds"], ".3g"),
    ]
