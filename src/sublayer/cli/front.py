"""How a search is shown: the front as it grows, and as it is at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublayer.nas.reporters import SearchProgress, SearchReporter
from sublayer.progress import Display
from sublayer.progress.trainings import watch

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from sublayer.nas.point import Point
    from sublayer.nas.records import FrontModel, SearchResult

ROWS, ALL = 8, 40
"""Models shown while the front grows, and at the end."""
EVERY = 0.3
"""Least number of seconds between two drawings."""
TITLES = {"decoder_params": "decoder params", "flops": "FLOPs"}


CANDIDATES = "evaluating candidates"


class SearchView(SearchReporter):
    """Shows the phases of a search and, on a terminal, some models of the front, from one end to the other."""

    def __init__(self, display: Display) -> None:
        self.display, self.shown = display, 0.0
        self.latest: SearchProgress | None = None

    def activity(self, text: str) -> None:
        self.display.update(self.display.done, status=text)

    def phase(self, name: str, done: int, total: int) -> None:
        if self.latest is None or len(self.latest.trials) == self.latest.total:
            self.display.reach(name, done, total)
        else:  # for the next generation: part of evaluating it
            self.activity(f"{name}: {done} of {total}")

    def progress(self, progress: SearchProgress) -> None:
        done, self.latest = len(progress.trials), progress
        if done == progress.recalled or self.display.phase != CANDIDATES:
            self.display.begin(CANDIDATES, progress.total, done)
        self.display.update(done, status=f"generation {len(progress.generations)}")
        now = self.display.clock()
        if self.display.terminal and (now - self.shown > EVERY or done == progress.total):
            self.display.below, self.shown = self._front(progress), now

    def timed_phase(self, name: str, seconds: float) -> None:
        self.display.begin_timed(name, seconds)

    def trainings(self, runs: Sequence[Path]) -> None:
        watch(self.display, [(path.name, path) for path in runs])

    def _front(self, progress: SearchProgress) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from sublayer.nas import pareto
        from sublayer.nas.front import box, evenly, front_model, nondominated
        from sublayer.nas.trial import table
        from sublayer.runs.wording import plural

        found = nondominated(progress.trials, progress.goals)
        if not found:
            return Text("none within the limits yet", style="yellow")
        points = table([trial for trial in progress.trials if trial.feasible], progress.goals)
        share = pareto.share(table(found, progress.goals), *box(points))
        title = Text(f"front: {plural(len(found), 'model')}, hypervolume {share:.3f}", style="bold")
        names = [goal.name for goal in progress.goals]
        return Group(title, draw([front_model(trial) for trial in evenly(found, ROWS)], names, {}))


def print_front(result: SearchResult, folder: str, data: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from sublayer.nas.front import evenly
    from sublayer.runs.wording import plural

    console = Console(highlight=False)
    front = result.front
    found = f"{plural(len(front), 'model')} on the front of {result.feasible:,} within the limits"
    tried = f"{result.trials:,} tried; hypervolume {result.hypervolume:.3f}"
    console.print(Text(folder, style="bold"), f"{found}, {tried}", markup=False)
    shown = [one for one in front if one.measured or one.run] or evenly(front, ALL)
    console.print(draw(shown, [goal.name for goal in result.objectives], result.limits))
    if len(shown) < len(front):
        console.print(f"{plural(len(front) - len(shown), 'more is', 'more are')} in {folder}/front.json", style="dim")
    for line in _doubts(result):
        console.print(line, style="yellow")
    if errors := result.predictor:
        known = {"latency": errors.latency, "memory": errors.memory}
        shares = " and ".join(f"{100 * value:.1f} % in {name}" for name, value in known.items() if value is not None)
        console.print(
            f"predictions are off by a median of {shares}, on {plural(errors.models, 'model')} measured", style="dim"
        )
    console.print(_next(result, folder, data), markup=False, soft_wrap=True)


def _doubts(result: SearchResult) -> list[str]:
    """What is wrong with the figures: disturbed ones, and models above the limit that they were predicted to meet."""
    from sublayer.nas.units import write
    from sublayer.runs.wording import plural

    above = [one for one in result.front if one.within is False]
    measured = [one.measured.disturbed for one in result.front if one.measured and one.measured.disturbed]
    lines = []
    if result.disturbed:
        lines.append(f"sublayers were measured on a busy machine ({result.disturbed}); predictions may be wrong")
    if measured:
        lines.append(f"the front was measured on a busy machine ({measured[0]}); the same command measures it again")
    if above:
        numbers = ", ".join(str(one.number) for one in above)
        most = " and ".join(f"{name} up to {write(name, value)}" for name, value in result.limits.items())
        lines.append(f"{plural(len(above), 'model is', 'models are')} above the limits as measured ({most}): {numbers}")
    return lines


def draw(models: Sequence[FrontModel], objectives: Sequence[str], limits: Mapping[str, float]) -> Table:
    """A table of counted, predicted and scored figures, with the measured ones beside them."""
    from rich.table import Table

    from sublayer.cli.words import coloured, two_lines
    from sublayer.nas.units import write

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    measured = [name for name in objectives if any(one.measured_value(name) is not None for one in models)]
    runs = any(one.run for one in models)
    table.add_column("trial", justify="right", no_wrap=True)
    table.add_column("layout", overflow="fold")
    table.add_column("dim", justify="right", no_wrap=True)
    for name in dict.fromkeys([*objectives, "params"]):
        table.add_column(two_lines(title(name)), justify="right", no_wrap=True)
        if name in measured:
            table.add_column(two_lines(f"{name}, measured"), justify="right", no_wrap=True)
    if runs:
        table.add_column("run", no_wrap=True)
    for one in models:
        cells: list[Any] = [str(one.number), coloured(one.layout), str(one.config["dim"])]
        for name in dict.fromkeys([*objectives, "params"]):
            cells.append(write(name, one.values[name]))
            if name in measured:
                cells.append(_reading(one, name, limits))
        table.add_row(*cells, *([one.run or ""] if runs else []))
    return table


def title(name: str) -> str:
    """A figure with its source where it is not counted: `latency, predicted`."""
    from sublayer.nas.goals import source

    made = TITLES.get(name, name)
    return made if source(name) == "counted" else f"{made}, {source(name)}"


def _reading(model: FrontModel, name: str, limits: Mapping[str, float]) -> Any:
    """Red where the measurement exceeds the limit that the prediction met; in doubt where it was disturbed."""
    from rich.text import Text

    from sublayer.nas.units import write

    measured = model.measured_value(name)
    if measured is None or model.measured is None:
        return Text("—", style="dim")
    if name == "latency" and model.measured.disturbed:
        return Text(f"{write(name, measured)}?", style="yellow")
    return Text(write(name, measured), style="red" if measured > limits.get(name, measured) else "green")


def _next(result: SearchResult, folder: str, data: str) -> str:
    """Commands to try next."""
    from sublayer.runs.wording import command

    trained = [one.run for one in result.front if one.run]
    if trained:
        use = command("runs", f"{folder}/runs"), command("generate", f"{folder}/{trained[0]}", "--prompt", "…")
        return " · ".join([*use, command("report", folder)])
    more = "the same command with --train 3 trains the best" + ("" if data else " (and --data FILE)")
    return f"{more} · {command('show', f'{folder}#best')} · {command('report', folder)}"


def print_pick(point: Point, by: str, data: str, plugins: Sequence[str]) -> None:
    """The model that was picked, its figures, and the command that trains it."""
    from rich.console import Console

    from sublayer.cli.words import coloured
    from sublayer.nas.units import write
    from sublayer.runs.wording import command

    console = Console(highlight=False)
    console.print(f"\n{by}  [bold]{point.name}[/bold]  ", coloured(point.model.layout), sep="")
    figures = (f"{TITLES.get(one.name, one.name)} {write(one.name, one.value)} {one.how}" for one in point.figures())
    console.print(f"dim {point.model.config['dim']}, {', '.join(figures)}", markup=False)
    loaded = [word for plugin in plugins for word in ("--plugin", plugin)]
    console.print(command("train", point.name, "--data", data or "stdlib", *loaded), markup=False, soft_wrap=True)
