"""Points: candidates of a search by name, `searches/x#294`: the folder, #, and the number of the trial.

Every trial of the journal has such a name, on the front or not. `searches/x#best`, `#fastest` and `#knee` name a model
of the front (`nas/pick.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sublayer.nas.folder import FRONT, SearchFolder
from sublayer.nas.goals import source
from sublayer.nas.pick import PICKS, pick
from sublayer.nas.records import FrontModel, SearchResult
from sublayer.nas.study import Recorded, read_trials
from sublayer.nn.model import Model
from sublayer.papers.description import Figure
from sublayer.plugins import hinting
from sublayer.runs.wording import plural

MARK = "#"


@dataclass(frozen=True)
class Point:
    folder: Path
    model: FrontModel
    on_front: bool
    disturbed: str | None = None
    """What disturbed the readings that its latency is predicted from."""

    @property
    def name(self) -> str:
        """With the number of its trial: `searches/x#294`."""
        return f"{self.folder}{MARK}{self.model.number}"

    @property
    def config(self) -> Model.Config:
        with hinting():
            return Model.Config.parse(self.model.config, self.name)

    @property
    def run(self) -> Path | None:
        """Of its training by the search itself."""
        return None if self.model.run is None else self.folder / self.model.run

    def figures(self) -> list[Figure]:
        """Each figure with its source; a measured one after the one that was predicted."""
        found, measured = [], self.model.measured
        for name, value in self.model.values.items():
            timed = name == "latency"  # nothing else can be disturbed
            found.append(Figure(name, value, source(name), self.disturbed if timed else None))
            if measured and (figure := measured.value(name)) is not None:
                found.append(Figure(name, figure, "measured", measured.disturbed if timed else None))
        return found


def read_point(name: str) -> Point:
    """The candidate that a name means."""
    path, _, which = name.rpartition(MARK)
    folder = SearchFolder.open(path or ".")
    if which in PICKS:
        result = folder.read_result()
        if result is None:
            raise ValueError(f"{name}: the search has no {FRONT} yet; run the same sublayer search again to finish it")
        return Point(folder.path, pick(result, which), on_front=True, disturbed=result.disturbed)
    if not which.isdecimal() or len(which) > 9:
        raise ValueError(
            f"{name}: {which!r} is not the number of a trial; write {path}{MARK}12, or one of "
            f"{', '.join(f'{path}{MARK}{one}' for one in PICKS)}"
        )
    number, result = int(which), folder.read_result()
    found = None if result is None else next((one for one in result.front if one.number == number), None)
    model = found or _trial(folder, number, name)
    return Point(folder.path, model, on_front=found is not None, disturbed=result.disturbed if result else None)


def several(folder: Path) -> str:
    """What to answer where one model is expected and a search is named."""
    result = SearchFolder(folder).read_result()
    if result is None:
        return f"a search that has no {FRONT} yet; run the same sublayer search again to finish it"
    picks = ", ".join(f"{folder}{MARK}{one}" for one in PICKS)
    numbers = f"by its trial, such as {folder}{MARK}{result.front[0].number}, or by " if result.front else "by "
    return f"a search, with {plural(len(result.front), 'model')} on its front; name one {numbers}{picks}"


def _trial(folder: SearchFolder, number: int, name: str) -> FrontModel:
    trials = read_trials(folder.journal)
    found = next((one for one in trials if one.number == number), None)
    if found is None:
        there = f"has trials 0 to {len(trials) - 1}" if trials else "has no trial yet"
        raise ValueError(f"{name}: the search {there}; name one of them, or {folder.path}{MARK}best")
    return FrontModel(number=number, config=found.config, layout=_layout(found), values=found.figures)


def _layout(trial: Recorded) -> str:
    """The layouts of all stacks, as the plain data has them, so that unknown kinds do not matter."""
    stacks = [one["layout"] for one in trial.config.values() if isinstance(one, dict) and "layout" in one]
    return " → ".join(map(str, stacks))


def picked(result: SearchResult, folder: Path | str, by: str) -> Point:
    """The point of a search that has just ended."""
    return Point(Path(folder), pick(result, by), on_front=True, disturbed=result.disturbed)
