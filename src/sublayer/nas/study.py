"""Trials in an Optuna study on a journal file, so that its dashboard and its tools can read them.

A trial is added whole, in one line of the journal. Writers take a lock that the system frees when a process dies, and
whoever holds it cuts off a line that a killed process left unfinished.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.nas.parameters import distributions, params_of
from sublayer.nas.records import SearchGoal
from sublayer.nas.space import Space
from sublayer.nas.trial import Figures, Trial


@dataclass(frozen=True)
class Recorded:
    """A trial as read from the journal."""

    number: int
    hash: str
    config: dict[str, Any]
    figures: Figures
    excess: Figures


class Journal:
    def __init__(self, path: Path, name: str, space: Space, goals: Sequence[SearchGoal]) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.path, self.space, self.goals = path, space, goals
        self.distributions = distributions(space)
        lock = _lock(path)
        with lock:
            pass  # cuts off the unfinished line of a killed writer before anything is read
        self.storage = _open(path, lock)
        directions: list[Any] = [goal.direction for goal in goals]
        self.study = optuna.create_study(
            study_name=name, storage=self.storage, directions=directions, load_if_exists=True
        )
        names = [goal.name for goal in goals]
        if self.study.metric_names != names:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                self.study.set_metric_names(names)

    def add(self, trial: Trial) -> None:
        """A trial above a limit may lack values; Optuna calls such a trial pruned."""
        from optuna.trial import TrialState, create_trial

        params = params_of(self.space, self.space.used(trial.candidate.genes))
        known = all(goal.name in trial.figures for goal in self.goals)
        attributes = {
            "config": trial.candidate.config.dump(),
            "hash": trial.candidate.hash,
            "figures": trial.figures,
            "excess": trial.excess,
        }
        self.study.add_trial(
            create_trial(
                state=TrialState.COMPLETE if known else TrialState.PRUNED,
                values=[float(trial.figures[one.name]) for one in self.goals] if known else None,
                params=params,
                distributions={name: self.distributions[name] for name in params},
                user_attrs=attributes,
                constraints={name: float(share) for name, share in trial.excess.items()},
            )
        )

    def trials(self) -> list[Recorded]:
        """In the order of their numbers."""
        return _recorded(self.storage, self.study._study_id, self.path)


def read_trials(path: Path) -> list[Recorded]:
    """The trials of a journal in the order of their numbers; nothing is written, so that a search may go on meanwhile.

    Where a journal is missing or empty, there are none.
    """
    if not path.is_file():
        return []
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = _open(path, lock=None)
    return [one for study in storage.get_all_studies() for one in _recorded(storage, study._study_id, path)]


def _open(path: Path, lock: Any) -> Any:
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except (ValueError, KeyError, TypeError, AssertionError):
        raise ValueError(
            f"{path}: not a journal of trials, so it was damaged or edited; put it back, or search in another folder"
        ) from None


def _recorded(storage: Any, study: int, path: Path) -> list[Recorded]:
    try:
        found = storage.get_all_trials(study, deepcopy=False)
        return [Recorded(trial.number, **trial.user_attrs) for trial in found]
    except TypeError:
        raise ValueError(
            f"{path}: a trial lacks its config or its figures, so the journal was damaged or edited; put it back, or "
            "search in another folder"
        ) from None


def _lock(path: Path) -> Any:
    """Optuna's own locks outlive a killed process for half a minute; the system frees this one at once."""
    from filelock import FileLock
    from optuna.storages.journal._file import BaseJournalFileLock

    class JournalLock(BaseJournalFileLock):
        def __init__(self) -> None:
            self.lock = FileLock(path.with_name(f".{path.name}.lock"))

        def acquire(self) -> bool:
            self.lock.acquire()
            mend(path)
            return True

        def release(self) -> None:
            self.lock.release()

        def __enter__(self) -> None:
            self.acquire()

        def __exit__(self, *error: object) -> None:
            self.release()

    return JournalLock()


def mend(path: Path) -> None:
    """Cut off a last line without its end."""
    if not path.exists() or not (size := path.stat().st_size):
        return
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read(size).rfind(b"\n") + 1)
