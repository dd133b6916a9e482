"""All trials of a search, from its journal; none where there is no journal or it cannot be read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from sublayer.reports.pareto import Point

JOURNAL = "journal.log"


def read(folder: Path, objectives: int) -> list[Point]:
    """Those within the limits that have a finite value for every objective."""
    path = folder / JOURNAL
    if not path.is_file():
        return []
    return [
        Point(one.number, "", tuple(one.values))
        for one in _trials(path)
        if one.values is not None
        and len(one.values) == objectives
        and all(map(math.isfinite, one.values))
        and _within(one)
    ]


def _within(trial: Any) -> bool:
    """The journal has how far a trial is above each limit."""
    excess = trial.user_attrs.get("excess")
    return not isinstance(excess, dict) or all(isinstance(one, int | float) and one <= 0 for one in excess.values())


def _trials(path: Path) -> list[Any]:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    said = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        storage = JournalStorage(JournalFileBackend(str(path)))
        studies = storage.get_all_studies()
        return [trial for study in studies for trial in storage.get_all_trials(study._study_id, deepcopy=False)]
    except Exception:  # a pale background is not worth failing for: the front has its own file
        return []
    finally:
        optuna.logging.set_verbosity(said)
