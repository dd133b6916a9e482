"""How a search is shown: the front as it grows, and as it is at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.live import Live
    from rich.table import Table

    from sublayer.nas.explore import Progress

ROWS, ALL = 8, 40
"""Models shown while the front grows, and at the end."""
EVERY = 0.3
"""Seconds between two looks at the front."""
TITLES = {"decoder_params": "decoder", "params": "params", "flops": "FLOPs"}


class View:
    """Says nothing; for programs."""

    def say(self, what: str) -> None:
        """What goes on besides the search itself."""

    def tell(self, progress: Progress) -> None:
        """After every trial."""


class LiveView(View):
    """A bar, how fast it goes, and some of the front, from one end to the other."""

    def __init__(self, live: Live) -> None:
        self.live, self.said = live, "measuring sublayers of this device"
        self.begun, self.shown, self.recalled = time.monotonic(), 0.0, 0
        self.progress: Progress | None = None

    def say(self, what: str) -> None:
        self.said = what
        self._show()

    def tell(self, progress: Progress) -> None:
        if self.progress is None:
            self.begun = time.monotonic()
        self.progress, self.said = progress, ""
        if time.monotonic() - self.shown > EVERY or len(progress.trials) == progress.of:
            self._show()

    def _show(self) -> None:
        self.live.update(self._page(), refresh=True)
        self.shown = time.monotonic()

    def _page(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        parts: list[RenderableType] = [self._bar(self.progress)] if self.progress else []
        parts += [Text(self.said, style="dim")] if self.said else []
        parts += [self._front(self.progress)] if self.progress else []
        return Group(*parts)

    def _bar(self, progress: Progress) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        done, seconds = len(progress.trials), max(1e-9, time.monotonic() - self.begun)
        row = Table.grid(padding=(0, 2))
        speed = f"{(done - progress.recalled) / seconds:.0f} a second"
        row.add_row(
            ProgressBar(progress.of, done, width=40),
            Text(f"{done:,} of {progress.of:,} candidates"),
            Text(f"{speed}, generation {len(progress.generations)}", style="dim"),
        )
        return row

    def _front(self, progress: Progress) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from sublayer.nas import pareto
        from sublayer.nas.result import along, box, entry, front
        from sublayer.nas.trial import table
        from sublayer.runs.wording import plural

        found = front(progress.trials, progress.objectives)
        if not found:
            return Text("none within the limits yet", style="yellow")
        points = table([trial for trial in progress.trials if trial.feasible], progress.objectives)
        share = pareto.share(table(found, progress.objectives), *box(points))
        title = Text(f"front: {plural(len(found), 'model')}, hypervolume {share:.3f}", style="bold")
        names = [objective.name for objective in progress.objectives]
        return Group(title, draw(along([entry(trial) for trial in found], ROWS), names, {}))


@contextmanager
def view(live: bool) -> Iterator[View]:
    if not live:
        yield View()
        return
    from rich.live import Live

    with Live(transient=True, auto_refresh=False) as shown:
        yield LiveView(shown)


def print_front(result: dict[str, Any], folder: str, data: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from sublayer.nas.result import along
    from sublayer.runs.wording import plural

    console = Console(highlight=False)
    front = result["front"]
    found = f"{plural(len(front), 'model')} on the front of {result['feasible']:,} within the limits"
    tried = f"{result['trials']:,} tried; hypervolume {result['hypervolume']:.3f}"
    console.print(Text(folder, style="bold"), f"{found}, {tried}", markup=False)
    shown = [one for one in front if one["measured"] or one["run"]] or along(front, ALL)
    console.print(draw(shown, [one["name"] for one in result["objectives"]], result["limits"]))
    if len(shown) < len(front):
        console.print(f"{plural(len(front) - len(shown), 'more is', 'more are')} in {folder}/front.json", style="dim")
    if result["predictor"]:
        wrong = result["predictor"]
        shares = " and ".join(f"{100 * wrong[name]:.1f} % in {name}" for name in ("latency", "memory") if name in wrong)
        console.print(
            f"predictions are off by a median of {shares}, on {plural(wrong['models'], 'model')} measured", style="dim"
        )
    console.print(_next(result, folder, data), markup=False, soft_wrap=True)


def draw(entries: Sequence[dict[str, Any]], objectives: Sequence[str], limits: dict[str, float]) -> Table:
    """What is predicted, and beside it what was measured."""
    from rich.table import Table

    from sublayer.cli.words import coloured
    from sublayer.nas.units import write

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    measured = [name for name in objectives if any(name in (one["measured"] or {}) for one in entries)]
    runs = any(one["run"] for one in entries)
    table.add_column("trial", justify="right", no_wrap=True)
    table.add_column("layout", overflow="fold")
    table.add_column("dim", justify="right", no_wrap=True)
    for name in dict.fromkeys([*objectives, "params"]):
        table.add_column(TITLES.get(name, name), justify="right", no_wrap=True)
        if name in measured:
            table.add_column("measured", justify="right", no_wrap=True)
    if runs:
        table.add_column("run", no_wrap=True)
    for one in entries:
        cells: list[Any] = [str(one["number"]), coloured(one["layout"]), str(one["config"]["dim"])]
        for name in dict.fromkeys([*objectives, "params"]):
            cells.append(write(name, one["values"][name]))
            if name in measured:
                cells.append(_reading(one, name, limits))
        table.add_row(*cells, *([one["run"] or ""] if runs else []))
    return table


def _reading(entry: dict[str, Any], name: str, limits: dict[str, float]) -> Any:
    """Red where it is beyond the limit that its prediction kept."""
    from rich.text import Text

    from sublayer.nas.units import write

    known = entry["measured"]
    if known is None:
        return Text("—", style="dim")
    beyond = known[name] > limits.get(name, known[name])
    return Text(write(name, known[name]), style="red" if beyond else "green")


def _next(result: dict[str, Any], folder: str, data: str) -> str:
    from sublayer.runs.wording import command

    trained = [one["run"] for one in result["front"] if one["run"]]
    if trained:
        told = command("runs", f"{folder}/runs"), command("generate", f"{folder}/{trained[0]}", "--prompt", "…")
        return " · ".join([*told, command("report", folder)])
    more = "the same command with --train 3 trains the best" + ("" if data else " (and --data FILE)")
    return f"{more} · {command('report', folder)}"
