"""`sublayer supernet`: the order of sublayers, searched by gradient."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.cli.stopping import same_command, when_stopped
from sublayer.progress import Display

if TYPE_CHECKING:
    from rich.console import Console

    from sublayer.nas.supernet import SupernetReporter
    from sublayer.nas.supernet.records import SupernetFigures
    from sublayer.nas.supernet.searcher import Searcher


def supernet(
    name: str,
    /,
    *changes: str,
    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = "stdlib",
    out: str = "",
    sublayers: Annotated[int | None, Parameter(name=["--sublayers", "--places"])] = None,
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
    """Search the order of attention and feed-forward by gradient, then train the layouts found beside the base.

    At each slot a supernet mixes sublayers of all letters; the letters it comes to prefer are the result, a word for
    each seed. A search that was stopped is continued by the same command.

    Examples: sublayer supernet transformer-xl-24 --data book.txt --out supernets/book dim=128 layout='(sf)x6' s.heads=4
    s.memory.length=64 f.inner=512 · sublayer supernet gpt2 --data book.txt --steps 2000 --single-path dim=128
    layout='(sf)x8' s.heads=4 train.steps=1000 · sublayer supernet gpt2 --latency-weight 20 --latencies s=0.004,f=0.002

    Parameters
    ----------
    name
        The base: a paper's name (see sublayer list), or a JSON or TOML file with a config.
    changes
        key=value: the base's (dim=128), the training's (train.lr=0.001), the data's (data.tokenizer=bpe), and the
        search's (search.lr=0.01, search.decay, search.warmup, search.share, search.round, search.tau_start,
        search.tau_end, search.patience, search.save_every).
    data
        The text, as for sublayer train. A fifth of its train split is for the architecture.
    out
        The folder of the search; default supernets/NAME.
    sublayers
        Number of sublayers to choose; default: as many as the base's layout has.
    letters
        Choices at each slot: letters of the base's alphabet, and - for the identity.
    steps
        Number of steps of each search, both phases together.
    seeds
        Number of searches, and of runs of the base.
    single_path
        Draw one path for each step instead of mixing all; a step then costs no more than the base's.
    latency_weight
        Nats that a second of expected latency adds to the loss.
    latencies
        Latency of one sublayer of each letter, in seconds: s=0.004,f=0.002; default: measured on this device.
    retrain
        Train the layouts found, the base and PAR from scratch, for train.steps steps; default: as many as --steps.
    par
        Coefficients p of PAR to train beside, such as 2,3,5,8; default: those of these that are possible.
    plugin
        A module with parts or papers of your own; can be repeated.
    json
        Print figures.json.
    """
    folder = Path(out or f"supernets/{Path(name).stem}")
    with when_stopped(lambda: _stopped(folder)), Display("starting") as display:
        import_torch()
        import sublayer
        from sublayer.cli.words import load_plugins, print_json, read_overrides

        load_plugins(plugin or [])
        result = sublayer.supernet(
            name,
            data,
            folder,
            read_overrides(changes),
            steps=steps,
            letters=letters,
            paths="one" if single_path else "all",
            sublayers=sublayers,
            seeds=seeds,
            latency_weight=latency_weight,
            latencies=read_pairs("--latencies", latencies),
            par=read_numbers("--par", par) if par else None,
            retrain=retrain,
            reporter=_view(display, folder),
        )
    print_json(result.dump()) if json else _print_table(result, folder)


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


def _view(display: Display, folder: Path) -> SupernetReporter:
    """Loss, entropy of the architecture and its word; on a terminal, results stay above the bar."""
    from rich.text import Text

    from sublayer.cli.words import coloured
    from sublayer.nas.supernet import SupernetReporter
    from sublayer.progress.trainings import watch
    from sublayer.runs.wording import plural

    class View(SupernetReporter):
        def begin(self, seed: int, searcher: Searcher) -> None:
            display.begin(f"search {seed}", searcher.plan.steps, searcher.step)

        def step(self, searcher: Searcher, line: dict[str, Any]) -> None:
            figures = [f"loss {line['loss']:.3f}", f"entropy {line['entropy']:.3f}"] if "loss" in line else []
            display.update(searcher.step, status=", ".join([*figures, searcher.word]))

        def found(self, result: dict[str, Any]) -> None:
            how = "settled" if result["settled"] else "not settled"
            word, steps = coloured(result["word"]), plural(result["steps"], "step")
            self._print(Text.assemble(f"search {result['seed']}  ", word, f"  {steps}, {how}"))

        def retrainings(self, names: Sequence[str]) -> None:
            watch(display, [(name, folder / "runs" / name) for name in names])

        def scored(self, score: dict[str, Any]) -> None:
            outcome = "diverged" if score["perplexity"] is None else f"perplexity {score['perplexity']:.4g}"
            self._print(Text.assemble(f"{score['name']:<14}  {outcome}  ", coloured(score["layout"])))

        def _print(self, line: Text) -> None:
            if display.terminal:
                display.print(line)

    return View()


def _stopped(folder: Path) -> str:
    if not (folder / "supernet.json").exists():
        return f"stopped; nothing is saved yet. {same_command()}"
    return f"stopped; searches and trainings so far are saved in {folder}. {same_command()}"


def _print_table(shown: SupernetFigures, folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from sublayer.cli.words import coloured
    from sublayer.runs.wording import command

    letters = shown.letters.replace("-", "")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("seed", no_wrap=True)
    table.add_column("word", overflow="fold")
    table.add_column("layout", overflow="fold")
    for title in (*(f"#{letter}" for letter in letters), "identities", "perplexity"):
        table.add_column(title, justify="right", no_wrap=True)
    for point in shown.figure2.points:
        word = point.word
        counts = (str(word.count(letter)) for letter in (*letters, "-"))
        layout = coloured(point.layout) if point.layout else "no sublayer"
        table.add_row(str(point.seed), coloured(word), layout, *counts, _written(point.perplexity))
    base, console = shown.base, Console()
    if base:
        known = [one for one in base.perplexities if one is not None]
        spread = f"{base.mean:.4g} ± {base.std:.2g}" if len(known) > 1 else _written(base.mean)
        _add(table, "base", base.layout, letters, spread)
    for point in shown.figure4.points:
        _add(table, f"PAR({point.p:g})", point.layout or "", letters, _written(point.perplexity))
    console.print(table)
    _print_thirds(console, shown, letters)
    for name, why in shown.diverged.items():
        console.print(f"{name} diverged: {why}", highlight=False, markup=False, soft_wrap=True)
    use = f"{folder}/figures.json · {command('runs', folder)}"
    console.print(use, style="dim", highlight=False, markup=False, soft_wrap=True)


def _add(table: Any, name: str, layout: str, letters: str, perplexity: str) -> None:
    from sublayer.cli.words import coloured
    from sublayer.nn.layout import expand

    counts = (str(expand(layout).count(letter)) for letter in letters)
    table.add_row(name, "", coloured(layout), *counts, "", perplexity)


def _print_thirds(console: Console, shown: SupernetFigures, letters: str) -> None:
    """The mean number of each letter in each third of the slots."""
    means = (
        f"{letter} {' · '.join(format(third[letter].mean or 0.0, '.1f') for third in shown.figure3.thirds)}"
        for letter in letters
    )
    console.print(f"mean number in each third: {'   '.join(means)}", highlight=False)


def _written(perplexity: float | None) -> str:
    return "—" if perplexity is None else f"{perplexity:.4g}"
