"""The main job, on the source of Python's own library: search for a model for this machine, train it, report.

A model designed by hand sets the budget: its time and its memory on this processor. A search looks for models within
that budget without training any; the fastest that has as many decoder parameters is then trained beside the first on
the same tokens. A table and a page compare the two, and the one that was found writes a few lines.

Under six minutes on two cores. Run again, it continues from the files in quickstart/.
"""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

import sublayer
from sublayer.cli.comparing import ComparisonView
from sublayer.cli.front import SearchView
from sublayer.cli.stopping import stopped_by_signals, when_stopped
from sublayer.comparison import ComparisonRow, Variant
from sublayer.measurement import Setting
from sublayer.nas import SearchResult
from sublayer.nas.folder import SearchFolder
from sublayer.nas.records import FrontModel
from sublayer.nn.model import Model
from sublayer.progress import Display

TEXT = "stdlib"
OUT = Path("quickstart")
LENGTH = 128
"""Tokens of the segment that is timed."""
VOCABULARY = 1536
FIXED = {"head": "tied", "s.heads": 4, "vocab": VOCABULARY}
BY_HAND = {"dim": 128, "layout": "(sf)x6", "f.inner": 384}
"""Deep and narrow, feed-forwards three times as wide: as one would write it down."""
CHOICES = {
    "dim": "96..256/32",
    "layout": "|".join(
        ["(sf)x2", "(sf)x3", "(sf)x4", "(sf)x5", "(sf)x6", "(sff)x2", "(sff)x3", "(ssf)x3", "(s)x2 (sf)x2"]
    ),
    "f.inner": "each(128..1024/64)",
}
SIZE: dict[str, Any] = {"population": 40, "iterations": 10}
TRAINING = {
    "data.tokenizer": "bpe",
    "data.tokenizer.size": VOCABULARY,
    "train.steps": None,
    "train.tokens": 400_000,
    "train.batch": 2,
    "train.length": 512,
    "train.lr": 3e-3,
    "train.warmup": 40,
    "train.eval_every": 200,
    "train.eval_tokens": 20_000,
}
PROMPT = "class Reader:\n    def __init__(self, name):\n        self.name = name\n\n    def "
console = Console(highlight=False)


def main() -> None:
    by_hand = sublayer.config("llama", {**FIXED, **BY_HAND})
    console.print("[bold]The budget[/bold]  what a model designed by hand takes here")
    with Display("measuring"):
        budget = sublayer.measure(by_hand, length=LENGTH, anyway=True)[0]
    doubt = f" (a rough figure, as {budget.disturbed})" if budget.disturbed else ""
    limits = f"{1e3 * budget.latency:.1f} ms for {LENGTH} tokens and {budget.memory / 1e6:.1f} MB"
    console.print(f"{by_hand.stacks[''].layout} at {by_hand.dim}: {limits}{doubt}\n")

    console.print("[bold]The search[/bold]  models within it, by what their sublayers take on this processor")
    result = search(by_hand, budget.memory)
    chosen = fastest(result, by_hand)
    found = Model.Config.parse(chosen.config)
    console.print(f"chosen: {found.stacks[''].layout} at {found.dim}, {in_the_race(result, chosen)}\n")

    console.print("[bold]The training[/bold]  both on the same tokens of Python's own library")
    view = ComparisonView(Display("preparing the text"))
    with view.display:
        variants = [Variant("by hand", by_hand), Variant("searched", found)]
        how = {"seeds": (0,), "setting": Setting(length=LENGTH), "on_start": view.start, "on_phase": view.phase}
        table = sublayer.compare(variants, TEXT, OUT / "comparison", TRAINING, **how)
    console.print(side_by_side(table.rows))

    with Display("writing the report"):
        page = sublayer.report([OUT / "search", OUT / "comparison"], OUT / "report.html")
    console.print(f"\n[bold]The page[/bold]  {page.path}: {page.charts} charts, opens without a network")

    run = OUT / "comparison" / table.rows[1].runs[0]
    console.print("\n[bold]What it writes[/bold]")
    written = sublayer.load(run).generate(PROMPT, tokens=120, temperature=0.7)
    console.print(PROMPT + written, style="cyan", markup=False)
    console.print(f"\n[bold]Next[/bold]  sublayer generate {run} --prompt 'import ' · sublayer search --help")


def search(by_hand: Model.Config, memory: float) -> SearchResult:
    """A search that was begun continues under the budget it began with."""
    budget, limits = by_hand, {"memory": memory}
    if (OUT / "search" / "search.json").exists():
        begun = SearchFolder(OUT / "search").read_request()
        budget, limits = Model.Config.parse(begun.budget) if begun.budget else None, begun.limits
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


def fastest(result: SearchResult, by_hand: Model.Config) -> FrontModel:
    """The fastest with as many decoder parameters, of those within the budget as measured; the largest, if none has."""
    least = by_hand.cost().decoder_params
    front = [one for one in result.front if one.within] or [one for one in result.front if one.within is None]
    front = sorted(front or result.front, key=lambda one: one.measured_value("latency") or one.values["latency"])
    large = [one for one in front if one.values["decoder_params"] >= least]
    return (large or front[-1:])[0]


def in_the_race(result: SearchResult, chosen: FrontModel) -> str:
    """Its time beside that of the budget, both measured in turn."""
    limit, latency = result.limits["latency"], chosen.measured_value("latency")
    if latency is None or chosen.within is None:
        return f"predicted at most {1e3 * limit:.1f} ms"
    return f"{1e3 * latency:.1f} ms measured in turn with the first, which sets the limit: at most {1e3 * limit:.1f} ms"


def side_by_side(rows: list[ComparisonRow]) -> Table:
    table = Table.grid("", *(Column(justify="right") for _ in range(5)), padding=(0, 3))
    table.add_row("", "layout", "decoder", "test bits/byte", "ms, measured", "MB, measured", style="bold")
    for row in rows:
        bits = "—" if row.test is None or row.test.bits_per_byte is None else f"{row.test.bits_per_byte.mean:.3f}"
        speed = "—" if row.latency is None else f"{1e3 * row.latency.latency:.1f}"
        size = "—" if row.memory is None else f"{row.memory / 1e6:.1f}"
        table.add_row(row.name, row.layout, f"{(row.decoder_params or 0) / 1e6:.2f} M", bits, speed, size)
    return table


if __name__ == "__main__":
    saved = f"stopped; what is done is saved in {OUT}. Continue by the same command"
    with stopped_by_signals(), when_stopped(lambda: saved):
        main()
