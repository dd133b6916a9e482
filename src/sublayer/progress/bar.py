"""The bar that a Display draws on a terminal, with rich."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.text import Text

if TYPE_CHECKING:
    from sublayer.progress.display import Display

WIDTH = 24


class Words(ProgressColumn):
    """Phase, count, status and the time, as the display has them when it is drawn."""

    def __init__(self, display: Display, *names: str) -> None:
        super().__init__()
        self.display, self.names = display, names

    def render(self, task: Task) -> Text:
        words = [getattr(self.display, name) for name in self.names]
        return Text(" · ".join(word for word in words if word))


class Bar(Progress):
    """Removed at the end."""

    def __init__(self, display: Display) -> None:
        self.display = display
        columns = Words(display, "phase"), BarColumn(WIDTH), Words(display, "count", "status", "time")
        # stdout is left alone: where it is a file, what is printed there must not come to the terminal.
        super().__init__(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self.add_task("")

    def get_renderables(self) -> Iterable[RenderableType]:
        display = self.display
        for task in self.tasks:
            task.total, task.completed = display.total, display.done
        yield from super().get_renderables()
        if display.below is not None:
            yield display.below
