"""The main job, on the source of Python's own library: search for a model for this machine, train it, report.

A model designed by hand sets the budget: its time and its memory on this processor. Two sides then have four models
each within that budget, and train them alike on the same tokens:

- by hand: at depths 2, 3, 4 and 6 the widest model of that design that fits;
- searched: the largest of the front of a search, which trains none to find them.

The best of each side on the valid split meet on the test split. A table and a page show all of them, and the best one
writes a few lines.

Under six minutes on two cores. Run again, it continues from the files in quickstart/.
"""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

import sublayer
from sublayer import executors
from sublayer.cli.comparing import ComparisonView
from sublayer.cli.front import SearchView
from sublayer.cli.stopping import stopped_by_signals, when_stopped
from sublayer.comparison import ComparisonRow, ComparisonTable, Variant
from sublayer.comparison.folder import ComparisonFolder
from sublayer.measurement import Reading, Setting, race
from sublayer.nas import SearchResult
from sublayer.nas.folder import SearchFolder
from sublayer.nas.records import FrontModel
from sublayer.nn.model import Model
from sublayer.progress import Display

TEXT = "stdlib"
OUT = Path("quickstart")
LENGTH = 128
"""Tokens of the segment that is timed."""
SETTING = Setting(length=LENGTH)
WAIT = 20.0
"""Seconds to wait for a quiet machine; then rough figures have to do."""
VOCABULARY = 1536
FIXED = {"head": "tied", "s.heads": 4, "vocab": VOCABULARY}
DEEPEST, NARROWEST = 6, 128
"""The model that sets the budget: deep and narrow, feed-forwards three times as wide."""
WIDTHS = {2: (200, 208, 216, 224), 3: (168, 176, 184, 192), 4: (144, 152, 160, 168)}
"""Depth → widths that may be within the budget."""
CHOICES = {
    "dim": "96..256/32",
    "layout": "|".join(
        ["(sf)x2", "(sf)x3", "(sf)x4", "(sf)x5", "(sf)x6", "(sff)x2", "(sff)x3", "(ssf)x3", "(s)x2 (sf)x2"]
    ),
    "f.inner": "each(128..1024/64)",
}
SIZE: dict[str, Any] = {"population": 40, "iterations": 10}
MODELS = 4
"""Models that each side may train."""
MARGIN = 0.97
"""A model counts as within the budget up to this share of it, so that the next race agrees."""
SEEDS = (0,)
TRAINING = {
    "data.tokenizer": "bpe",
    "data.tokenizer.size": VOCABULARY,
    "train.steps": None,
    "train.tokens": 200_000,
    "train.batch": 4,
    "train.length": 256,
    "train.lr": 3e-3,
    "train.warmup": 30,
    "train.threads": 1,
    "train.eval_every": 200,
    "train.eval_tokens": 20_000,
}
PROMPT = "class Reader:\n    def __init__(self, name):\n        self.name = name\n\n    def "
console = Console(highlight=False)


def main() -> None:
    variants = begun() or chosen()
    console.print(
        f"[bold]The training[/bold]  {MODELS} models of each side, on the same tokens of Python's own library"
    )
    view = ComparisonView(Display("preparing the text"))
    with view.display, executors.pool(workers=2) as pool:
        how = {"seeds": SEEDS, "setting": SETTING, "on_start": view.start, "on_phase": view.phase}
        table = sublayer.compare(variants, TEXT, OUT / "comparison", TRAINING, pool=pool, **how)
    console.print(side_by_side(table))
    rival, found = (best(table, side) for side in ("by hand", "searched"))
    console.print(verdict(table, rival, found))

    with Display("writing the report"):
        page = sublayer.report([OUT / "search", OUT / "comparison"], OUT / "report.html")
    console.print(f"\n[bold]The page[/bold]  {page.path}: {page.charts} charts, opens without a network")

    run = OUT / "comparison" / min(rival, found, key=bits).runs[0]
    console.print("\n[bold]What the best one writes[/bold]")
    written = sublayer.load(run).generate(PROMPT, tokens=120, temperature=0.7)
    console.print(PROMPT + written, style="cyan", markup=False)
    console.print(f"\n[bold]Next[/bold]  sublayer generate {run} --prompt 'import ' · sublayer search --help")


# The models of both sides


def begun() -> list[Variant]:
    """Those of a comparison that was begun before."""
    asked = ComparisonFolder(OUT / "comparison").read_asked()
    return [Variant(one["name"], Model.Config.parse(one["model"])) for one in asked.get("variants", ())]


def chosen() -> list[Variant]:
    budget = by_hand(DEEPEST, NARROWEST)
    console.print("[bold]The budget[/bold]  what a model designed by hand takes here, and others of its design")
    swept, reading = sweep(budget)
    doubt = f" (a rough figure, as {reading.disturbed})" if reading.disturbed else ""
    time = f"{1e3 * reading.latency:.1f} ms ± {100 * reading.spread:.0f} %"
    limits = f"{time} for {LENGTH} tokens, {reading.memory / 1e6:.1f} MB"
    console.print(f"{sketch(budget)}: {limits}{doubt}")
    console.print(f"within it at other depths: {', '.join(map(sketch, swept[1:]))}\n")

    console.print("[bold]The search[/bold]  models within it, by what their sublayers take on this processor")
    result = search(budget, reading.memory)
    # A model of both sides would say nothing about either.
    found = [one for one in largest(result) if one.hash not in {model.hash for model in swept}][:MODELS]
    doubt = f", as far as a busy machine shows it ({result.disturbed})" if result.disturbed else ""
    sizes = (f"{sketch(one)} ({one.cost().decoder_params / 1e6:.2f} M)" for one in found)
    console.print(f"the largest within the budget{doubt}: {', '.join(sizes)}\n")
    sides = {"by hand": swept, "searched": found}
    return [Variant(f"{side} {n}", one) for side, models in sides.items() for n, one in enumerate(models, 1)]


def by_hand(depth: int, dim: int) -> Model.Config:
    return sublayer.config("llama", {**FIXED, "dim": dim, "layout": f"(sf)x{depth}", "f.inner": 3 * dim})


def sweep(budget: Model.Config) -> tuple[list[Model.Config], Reading]:
    """The budget and, at every other depth, the widest model within it, all measured in turn; the budget's reading."""
    rivals = [by_hand(depth, dim) for depth, widths in WIDTHS.items() for dim in widths]
    with Display("measuring models of that design in turn"):
        first, *readings = race([budget, *rivals], SETTING, seconds=0.7, wait=WAIT, alone=False).readings
    within: dict[str, Model.Config] = {}
    for model, reading in zip(rivals, readings, strict=True):  # the widest of a depth comes last
        if reading.latency <= first.latency and reading.memory <= first.memory:
            within[model.stacks[""].layout] = model
    return [budget, *within.values()], first


def search(budget: Model.Config, memory: float) -> SearchResult:
    """A search that was begun continues under the limits it began with."""
    limits = {"memory": memory}
    if (OUT / "search" / "search.json").exists():
        limits = SearchFolder(OUT / "search").read_request().limits
    with Display("starting the search") as display:
        return sublayer.search(
            "llama",
            None,
            OUT / "search",
            {**FIXED, **CHOICES},
            limits=limits,
            budget=budget,
            objectives="decoder_params,latency",
            setting={"length": LENGTH},
            seconds=1.0,
            reporter=SearchView(display),
            **SIZE,
        )


def largest(result: SearchResult) -> list[Model.Config]:
    """Models with the most parameters among those measured within the budget; first one of each layout."""

    def latency(one: FrontModel) -> float:
        measured = one.measured_value("latency")
        return one.values["latency"] if measured is None else measured

    within = [one for one in result.front if one.within is not False] or result.front
    well = [one for one in within if latency(one) <= MARGIN * result.limits["latency"]] or within
    ranked = sorted(well, key=lambda one: -one.values["decoder_params"])
    first = {one.layout: one for one in reversed(ranked)}.values()  # the largest of each layout
    return [Model.Config.parse(one.config) for one in sorted(ranked, key=lambda one: one not in first)]


# What came of them


def best(table: ComparisonTable, side: str) -> ComparisonRow:
    """The lowest loss on valid, of the models of a side that are within the budget."""
    own = [row for row in table.ranked if row.name.startswith(side)]
    return next((row for row in own if not is_above(row, table)), own[0])


def is_above(row: ComparisonRow, table: ComparisonTable) -> bool:
    """Whether it takes longer than the first model, which sets the budget, in the race of all."""
    budget = table.rows[0].latency
    return row.latency is not None and budget is not None and row.latency.latency > budget.latency


def bits(row: ComparisonRow) -> float:
    """Per byte of the test split."""
    found = row.test and row.test.bits_per_byte
    return found.mean if found else float("inf")


def verdict(table: ComparisonTable, rival: ComparisonRow, found: ComparisonRow) -> str:
    """Who wins, and whether both kept to the budget in the race of all."""
    gain = bits(rival) - bits(found)
    if gain <= 0:
        words = f"Here the search did not win: the best model by hand has {-gain:.3f} bits/byte less on test"
    else:
        words = f"The search wins by {gain:.3f} bits/byte on test, best against best"
    return f"\n{words}{kept_to(table, rival, found)}."


def kept_to(table: ComparisonTable, *rows: ComparisonRow) -> str:
    """The budget: as far as it is known."""
    if any(row.latency is None for row in (table.rows[0], *rows)):
        return "; the machine was too busy to time them, so run this again"
    above = [row.name for row in rows if is_above(row, table)]
    return f", but {' and '.join(above)} took longer than the budget" if above else ", within the same budget"


def side_by_side(table: ComparisonTable) -> Table:
    shown = Table.grid(*(Column(justify="right" if n > 2 else "left") for n in range(8)), padding=(0, 2))
    titles = ("", "layout", "width", "decoder", "valid bits/byte", "test bits/byte", "ms", "MB")
    shown.add_row(*titles, style="bold")
    winners = [best(table, side).name for side in ("by hand", "searched")]
    for row in table.rows:
        valid = "—" if row.bits_per_byte is None else f"{row.bits_per_byte.mean:.3f}"
        speed = "—" if row.latency is None else f"{1e3 * row.latency.latency:.1f}"
        speed += " above" if is_above(row, table) else ""
        size = "—" if row.memory is None else f"{row.memory / 1e6:.1f}"
        cells = row.name, row.layout, str((row.config or {}).get("dim")), f"{(row.decoder_params or 0) / 1e6:.2f} M"
        style = "bold green" if row.name in winners else None
        shown.add_row(*cells, valid, f"{bits(row):.3f}", speed, size, style=style)
    return shown


def sketch(model: Model.Config) -> str:
    return f"{model.stacks[''].layout} at {model.dim}"


if __name__ == "__main__":
    saved = f"stopped; what is done is saved in {OUT}. Continue by the same command"
    with stopped_by_signals(), when_stopped(lambda: saved):
        main()
