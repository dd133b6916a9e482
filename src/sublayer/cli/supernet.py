"""`sublayer supernet`: the order of sublayers, searched by gradient."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from rich.console import Console

    from sublayer.nas.supernet import ProgressReporter, SearchConfig
    from sublayer.nas.supernet.searcher import Searcher
    from sublayer.nn.model import Model
    from sublayer.training import TrainConfig


def supernet(
    name: str,
    /,
    *changes: str,
    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = "stdlib",
    out: str = "",
    places: int | None = None,
    letters: str = "sf-",
    steps: int = 500,
    seeds: int = 3,
    single_path: Annotated[bool, Parameter(negative="")] = False,
    latency_weight: float = 0.0,
    latencies: str = "",
    retrain: bool = True,
    par: str = "",
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Search the order of attention and feed-forward by gradient, then train what was found beside the base.

    At each place a supernet mixes all letters; which of them it comes to prefer is the result, a word for each seed.
    Give the same command again to go on with a search that was stopped; ended seeds and runs are not repeated.

    Examples: sublayer supernet transformer-xl-24 --data book.txt --out supernets/book dim=128 layout='(sf)x6' s.heads=4
    s.memory.length=64 f.inner=512 · sublayer supernet gpt2 --data book.txt --steps 2000 --single-path dim=128
    layout='(sf)x8' s.heads=4 train.steps=1000 · sublayer supernet gpt2 --latency-weight 20 --latencies s=0.004,f=0.002

    Parameters
    ----------
    name
        The base: a paper's name (see sublayer list), or a JSON or TOML file with a config.
    changes
        key=value: the base's (dim=128), the training's (train.lr=0.001), the data's (data.tokenizer=bpe), and the
        search's (search.lr=0.01, search.decay, search.still, search.share, search.round, search.hot, search.cold,
        search.settled, search.save_every).
    data
        As sublayer train takes it. A fifth of train is held apart for the architecture.
    out
        The folder of the search; supernets/NAME if not given.
    places
        Sublayers to choose; as many as the base's layout has, if not given.
    letters
        What may stand at each place: letters of the base's alphabet, and - for nothing.
    steps
        Of each search, both phases together.
    seeds
        How many searches, and how many runs of the base.
    single_path
        Draw one path for each step instead of mixing all: a step costs no more than the base's.
    latency_weight
        What a second of expected latency adds to the loss, in nats.
    latencies
        What one sublayer of each letter takes, in seconds: s=0.004,f=0.002; measured on this device if not given.
    retrain
        Train from scratch what was found, the base and PAR, for train.steps steps; if not given, as many as the search.
    par
        Coefficients p of PAR to train beside, such as 2,3,5,8; those of these that the places allow, if not given.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON for other programs: what figures.json holds.
    """
    import_torch()
    import sublayer
    from sublayer.cli.words import load_plugins, print_json, read_overrides
    from sublayer.data import DataConfig
    from sublayer.keys import absolute, split
    from sublayer.nas.supernet import SearchConfig, search
    from sublayer.training import TrainConfig

    load_plugins(plugin or [])
    if seeds < 1:
        raise ValueError(f"--seeds {seeds}: at least one search is needed")
    words = read_overrides(changes)
    own = {key.removeprefix("search."): value for key, value in words.items() if key.startswith("search.")}
    model, of = split({key: value for key, value in words.items() if not key.startswith("search.")})
    base, folder = sublayer.config(name), Path(out or f"supernets/{Path(name).stem}")
    asked = {"steps": steps, "letters": letters, "paths": "one" if single_path else "all", **own}
    config = SearchConfig().override(asked, "search")
    train = TrainConfig().override({"steps": config.steps, **of["train"]}, "train")
    if latency_weight:
        seconds = read_pairs("--latencies", latencies) or find_latencies(base, model, config, train, folder)
        config = config.override({"latencies": seconds, "latency_weight": latency_weight}, "search")
    elif latencies:
        raise ValueError("--latencies: they count only with --latency-weight; give one, such as --latency-weight 10")
    text = DataConfig.guess(absolute(data))
    shown = search(
        base,
        text.override(of["data"], "data") if of["data"] else text,
        folder,
        config,
        train,
        changes=model,
        places=places,
        seeds=range(train.seed, train.seed + seeds),
        par=read_numbers("--par", par) if par else None,
        retrained=retrain,
        tell=bar() if sys.stdout.isatty() and not json else None,
    )
    print_json(shown) if json else _print_table(shown, folder)


def find_latencies(
    base: Model.Config, changes: dict[str, Any], config: SearchConfig, train: TrainConfig, folder: Path
) -> dict[str, float]:
    """Those that the search in this folder began with, or measured: a segment as training reads it, one row of it."""
    from sublayer.measurement import Predictor, Setting
    from sublayer.nas.supernet.folder import ASKED, Folder
    from sublayer.nas.supernet.latency import latencies
    from sublayer.nas.supernet.stack import over
    from sublayer.nn.model import Decoder
    from sublayer.nn.model.single import SingleStack

    if (folder / ASKED).exists():
        return Folder(folder).search.latencies
    made = base.but({key: value for key, value in changes.items() if key != "vocab"})
    if not isinstance(made, SingleStack.Config):
        raise ValueError(f"{made.tag}: only a model with one stack can be searched; use a decoder or an encoder")
    over(made, config.letters)  # says what is wrong with the letters before they are measured
    task = "segment" if isinstance(made, Decoder.Config) else "prefill"
    with Predictor(Setting(task=task, length=train.length)) as predictor:
        return latencies(made, config.letters, lambda one: predictor.predict(one).latency)


def read_pairs(option: str, text: str) -> dict[str, float]:
    """`s=0.004,f=0.002` → {"s": 0.004, "f": 0.002}."""
    pairs = {}
    for word in filter(None, text.split(",")):
        letter, _, number = word.partition("=")
        pairs[letter.strip()] = _number(option, number, "s=0.004,f=0.002")
    return pairs


def read_numbers(option: str, text: str) -> list[float]:
    return [_number(option, word, "2,3,5,8") for word in text.split(",")]


def _number(option: str, text: str, example: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option}: {text!r} is not a number; write for example {option} {example}") from None


def bar() -> ProgressReporter:
    """A bar with the loss, how decided the architecture is, and its word; what was found stays above it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    from sublayer.cli.words import coloured
    from sublayer.nas.supernet import ProgressReporter
    from sublayer.runs.wording import plural

    class Bar(ProgressReporter):
        def __init__(self) -> None:
            self.console = Console()
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(24),
                TextColumn("{task.fields[said]}"),
            )
            self.bar = Progress(*columns, TimeRemainingColumn(), console=self.console, transient=True)
            self.task = self.bar.add_task("", total=None, said="")
            self.bar.start()

        def begin(self, seed: int, searcher: Searcher) -> None:
            self.bar.reset(self.task, total=searcher.plan.steps, completed=searcher.step, description=f"search {seed}")

        def step(self, searcher: Searcher, line: dict[str, Any]) -> None:
            said = f"loss {line['loss']:.3f} · entropy {line['entropy']:.3f} · " if "loss" in line else ""
            self.bar.update(self.task, completed=searcher.step, said=said + coloured(searcher.word).markup)

        def found(self, result: dict[str, Any]) -> None:
            how = "settled" if result["settled"] else "not settled"
            word = coloured(result["word"])
            self.console.print(
                Text.assemble(f"search {result['seed']}  ", word, f"  {plural(result['steps'], 'step')}, {how}")
            )

        def retrain(self, name: str, layout: str, number: int, count: int) -> None:
            said = coloured(layout).markup
            self.bar.reset(self.task, total=count, completed=number - 1, description=f"train {name}", said=said)

        def scored(self, score: dict[str, Any]) -> None:
            told = "diverged" if score["perplexity"] is None else f"perplexity {score['perplexity']:.4g}"
            self.console.print(Text.assemble(f"{score['name']:<14}  {told}  ", coloured(score["layout"])))

        def stop(self) -> None:
            self.bar.stop()

    return Bar()


def _print_table(shown: dict[str, Any], folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from sublayer.cli.words import coloured
    from sublayer.runs.wording import command

    letters = shown["letters"].replace("-", "")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("seed", no_wrap=True)
    table.add_column("word", overflow="fold")
    table.add_column("layout", overflow="fold")
    for title in (*(f"#{letter}" for letter in letters), "identities", "perplexity"):
        table.add_column(title, justify="right", no_wrap=True)
    for point in shown["figure2"]["points"]:
        word = point["word"]
        counts = (str(word.count(letter)) for letter in (*letters, "-"))
        layout = coloured(point["layout"]) if point["layout"] else "no sublayer"
        table.add_row(str(point["seed"]), coloured(word), layout, *counts, _told(point["perplexity"]))
    base, console = shown["base"], Console()
    if base:
        known = [one for one in base["perplexities"] if one is not None]
        spread = f"{base['mean']:.4g} ± {base['std']:.2g}" if len(known) > 1 else _told(base["mean"])
        _add(table, "base", base["layout"], letters, spread)
    for point in shown["figure4"]["points"]:
        _add(table, f"PAR({point['p']:g})", point["layout"], letters, _told(point["perplexity"]))
    console.print(table)
    _print_thirds(console, shown, letters)
    for name, why in shown["diverged"].items():
        console.print(f"{name} diverged: {why}", highlight=False, markup=False, soft_wrap=True)
    told = f"{folder}/figures.json · {command('runs', folder)}"
    console.print(told, style="dim", highlight=False, markup=False, soft_wrap=True)


def _add(table: Any, name: str, layout: str, letters: str, perplexity: str) -> None:
    from sublayer.cli.words import coloured
    from sublayer.nn.layout import expand

    counts = (str(expand(layout).count(letter)) for letter in letters)
    table.add_row(name, "", coloured(layout), *counts, "", perplexity)


def _print_thirds(console: Console, shown: dict[str, Any], letters: str) -> None:
    """Where each letter stands, from the first third of the places to the last."""
    told = (
        f"{letter} {' · '.join(format(third[letter]['mean'], '.1f') for third in shown['figure3']['thirds'])}"
        for letter in letters
    )
    console.print(f"mean number in each third: {'   '.join(told)}", highlight=False)


def _told(perplexity: float | None) -> str:
    return "—" if perplexity is None else f"{perplexity:.4g}"
