"""All trials of a search, from its journal; none where the journal is missing or cannot be read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from sublayer.nas.folder import JOURNAL
from sublayer.reports.pareto import Point


def read(folder: Path, objectives: int) -> list[Point]:
    """The trials within the limits that have a finite value for every objective."""
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
    """Whether no figure is above its limit; the journal has how far each is."""
    excess = trial.user_attrs.get("excess")
    return not isinstance(excess, dict) or all(isinstance(one, int | float) and one <= 0 for one in excess.values())


def _trials(path: Path) -> list[Any]:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        storage = JournalStorage(JournalFileBackend(str(path)))
        studies = storage.get_all_studies()
        return [trial for study in studies for trial in storage.get_all_trials(study._study_id, deepcopy=False)]
    except Exception:  # the trials are only a background: the front has its own file
        return []
    finally:
        optuna.logging.set_verbosity(verbosity)
