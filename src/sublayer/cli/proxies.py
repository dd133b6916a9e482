"""`sublayer proxies`: which figure of an untrained model predicts best how good it will be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.cli.stopping import same_command, when_stopped
from sublayer.progress import Display

if TYPE_CHECKING:
    from sublayer.nas.proxies.records import ProxyRanking, RankedProxy
    from sublayer.nas.proxies.study import StudyReporter


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

    A sample of a space is scored, then trained for a small budget; a proxy with rank correlation 1 has the true order.
    A study that was stopped is continued by the same command. With --table, models of a ready table are ranked.

    Examples: sublayer proxies gpt2 dim=64..192/32 layout='(sf)x2|(sf)x4' f.inner='each(128|256|512)' s.heads=4
    --data book.txt --out proxies/book --models 20 train.steps=300 · sublayer proxies lts-gpt2 'dim=64..256/64'
    layout='(sf)x2|(sf)x3' --data book.txt --latency · sublayer proxies --table models.csv --json

    Parameters
    ----------
    name
        A space (see sublayer search), or a paper's name or a config file with something to choose in changes.
    changes
        key=value as for sublayer train; dim=64..192/32 and s.heads='2|4' are choices, f.inner='each(128|256)' is one
        for each layer, 'f.inner>1.7*dim' is a rule.
    data
        The text the models are trained on: a file, a folder, …
    out
        The folder of the study; default proxies/NAME. With --table, the folder for ranking.json; default none.
    models
        Number of models to train.
    proxy
        Name of a proxy to score; can be repeated. Default: all.
    seed
        Random seed of the sample, and of the weights that proxies read.
    latency
        Also measure each model on this machine, and show how far the proxy's front is from the true one.
    workers
        Number of models scored and trained at once.
    ray
        A Ray cluster to score and train on: auto, or HOST:PORT.
    table
        A CSV with a row for each trained model: ppl, proxies by name (decoder_params, total_params, …); set,
        latency_ms and others if known. Each set is ranked by itself.
    plugin
        A module with parts or papers of your own; can be repeated.
    json
        Print the ranking as JSON.
    """
    folder = Path(out or f"proxies/{Path(name).stem}")
    with when_stopped(lambda: _stopped(folder)), Display("starting") as display:
        import_torch()
        import sublayer
        from sublayer.cli.choices import read_choices
        from sublayer.cli.words import load_plugins, print_json

        load_plugins(plugin or [])
        if table:
            if name:
                raise ValueError(f"--table ranks trained models, so {name!r} has nothing to add; leave one of them out")
            if proxy or latency:
                raise ValueError("--table ranks by its own columns; leave --proxy and --latency out")
            ranking = sublayer.rank_table(table, out or None)
        elif name:
            keys, rules = read_choices(changes)
            ranking = sublayer.proxies(
                name,
                data,
                folder,
                keys,
                rules=rules,
                models=models,
                names=proxy or (),
                seed=seed,
                latency=latency,
                workers=workers,
                ray=ray or None,
                plugins=plugin or (),
                reporter=_view(display, folder),
            )
        else:
            raise ValueError("proxies: name a space or a paper to sample from, or give a ready table with --table FILE")
    print_json(ranking.dump()) if json else _print_tables(ranking)


def _view(display: Display, folder: Path) -> StudyReporter:
    """Shows each phase; trainings by the files of their runs."""
    from sublayer.nas.proxies.study import StudyReporter
    from sublayer.progress.trainings import watch

    class View(StudyReporter):
        def begin(self, phase: str, total: int) -> None:
            display.begin(phase, total)
            if phase == "trainings":
                watch(display, [(f"{n:04d}", folder / "runs" / f"{n:04d}") for n in range(total)])

        def done(self, number: int) -> None:
            if not display.watching:
                display.update(display.done + 1)

    return View()


def _stopped(folder: Path) -> str:
    if not (folder / "proxies.json").exists():
        return f"stopped; nothing is saved yet. {same_command()}"
    return f"stopped; scores and trainings so far are saved in {folder}. {same_command()}"


def _print_tables(ranking: ProxyRanking) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sublayer.runs.wording import plural

    console = Console()
    for models in ranking.sets:
        dropped = f", {models.dropped} without a perplexity left out" if models.dropped else ""
        console.print(f"{models.set}: {plural(models.models, 'model')}{dropped}", highlight=False, markup=False)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        rows = [_figures(proxy) for proxy in models.proxies]
        known = [n for n in range(len(TITLES)) if any(row[n] != "—" for row in rows)]
        table.add_column("proxy", no_wrap=True)
        for n in known:
            table.add_column(TITLES[n], justify="right", no_wrap=True)
        for proxy, row in zip(models.proxies, rows, strict=True):
            table.add_row(Text(f"{proxy.name} {'↑' if proxy.higher else '↓'}"), *(row[n] for n in known))
        console.print(table)
        console.print()
    for one in ranking.skipped:
        console.print(f"{one.set}: {plural(one.models, 'model')}, too few to rank", highlight=False, markup=False)


TITLES = ("Spearman", "95 %", "top 10 %", "30 %", "50 %", "front off", "s/model")


def _figures(proxy: RankedProxy) -> list[str]:
    def written(value: float | None, form: str) -> str:
        return "—" if value is None else format(value, form)

    between = "—" if proxy.low is None else f"{proxy.low:.2f}…{proxy.high:.2f}"
    common = list(proxy.common.values()) if proxy.common else [None] * 3
    shares = [written(value, ".0%") for value in common]
    return [
        written(proxy.spearman, ".3f"),
        between,
        *shares,
        written(proxy.front_distance, ".1%"),
        written(proxy.seconds, ".3g"),
    ]
