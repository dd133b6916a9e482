"""Many trainings by a pool: each an ordinary run, which is begun, continued, or left alone if it is done.

A task is {"model", "data", "train": their dumps, "out": the run's folder}, and may have "changes", made to the model
once it has the text's vocabulary, "text", the hash that the text must have, and "origin", the name of the model. Where
tasks see the files of this machine, they train in place. Elsewhere they train in their machine's cache, and the
finished run comes back as bytes.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch

from sublayer.data import Data, prepare
from sublayer.executors.archive import pack, unpack
from sublayer.executors.pool import Pool
from sublayer.files import cache
from sublayer.files.atomic import writing
from sublayer.nn.model import Model
from sublayer.runs import Notes, Run, sealed_json
from sublayer.runs.metrics import comparable
from sublayer.runs.run import ASKED
from sublayer.training import DivergedError, TrainConfig
from sublayer.training.budget import Budget, Stopwatch
from sublayer.training.job import begin, prepare_for, resume

DIVERGED = "diverged.json"
PATIENCE = 20.0
"""Seconds to wait for a run that another process has locked."""
Task = dict[str, Any]


def train_all(pool: Pool, tasks: Iterable[Task]) -> Iterator[tuple[int, Run]]:
    """Runs as they finish, with their task's index; those that are done already come first."""
    tasks = list(tasks)
    for task in tasks:
        check_same(task)
    done = {index for index, task in enumerate(tasks) if is_done(task["out"])}
    for index in sorted(done):
        yield index, Run.open(tasks[index]["out"])
    left = [index for index in range(len(tasks)) if index not in done]
    for n, archive in pool.run(trained if pool.shared else sent, [tasks[index] for index in left]):
        out = tasks[left[n]]["out"]
        if archive is not None:
            unpack(archive, out)
        yield left[n], Run.open(out)


def trained(task: Task) -> None:
    """Train in place; a run that is there continues."""
    with _own_threads():
        try:
            _wait_for(Path(task["out"]))
            run, data = _begun(task, Path(task["out"]))
            resume(run, prepared=data)
        except DivergedError as error:
            with writing(Path(task["out"]) / DIVERGED) as file:
                file.write(json.dumps({"why": str(error)}).encode())


def sent(task: Task) -> bytes:
    """Train in the cache of this machine, and return the run as bytes. A task that was lost here before continues."""
    try:
        with _scratch(task) as out:
            trained({**task, "out": str(out)})
            return pack(out)
    except ValueError as error:
        raise ValueError(
            f"on {socket.gethostname()}: {error}. Every machine of the cluster must find the text under the same path"
        ) from None


def check_same(task: Task) -> None:
    """Refuse a task whose run was begun with another training config."""
    out = Path(task["out"])
    if not (out / ASKED).exists():
        return
    for key, there, here in sealed_json.differing(Run.open(out).asked["train"], task["train"]):
        raise ValueError(
            f"{out}: was trained with train.{key}={sealed_json.short(there)}, not {sealed_json.short(here)}; ask for "
            "the same, or move the run away to train it anew"
        )


def why_diverged(run: Run) -> str | None:
    """Why a training diverged; None if it did not."""
    path = run.path / DIVERGED
    return sealed_json.read(path, ("why",))["why"] if path.exists() else None


def scores(run: Run) -> list[Mapping[str, Any]]:
    """The lines of metrics with scores on valid that can be compared; a training that ended well has some."""
    lines = comparable(run.metrics)
    if not lines:
        raise ValueError(
            f"{run.metrics.path}: no score on valid in it, though its run has ended; it was damaged or edited, put it "
            "back, or move the run away to train it anew"
        )
    return lines


def is_done(out: Path | str) -> bool:
    """Whether there is a run that has spent its budget, or diverged, found out without building the model."""
    run = Run(Path(out))
    if not (run.path / ASKED).exists():
        return False
    if why_diverged(run):
        return True
    config, checkpoints = TrainConfig.parse(run.asked["train"]), run.checkpoints
    if not checkpoints:
        return False
    last = checkpoints[-1]
    over = Budget(config, Stopwatch(run.seconds)).over(Notes.read(last).progress)
    return bool(over) and (not config.average or (last.path / "average.safetensors").exists())


def _begun(task: Task, out: Path) -> tuple[Run, Data | None]:
    """The run that is there, if it was asked for just so, else a new one; and its data, where that is prepared."""
    model, config = Model.Config.parse(task["model"]), TrainConfig.parse(task["train"])
    data, new = Data.Config.parse(task["data"]), not (out / ASKED).exists()
    prepared = prepare_for(model, data, out, config) if new else prepare(data) if "text" in task else None
    if prepared is not None and prepared.hash != task.get("text", prepared.hash):
        raise ValueError(f"{prepared.title}: not the text that was asked for; put it back")
    if new:
        made = begin(model, data, out, config, task.get("changes") or {}, prepared=prepared, origin=task.get("origin"))
        return made, prepared
    check_same(task)
    return Run.open(out), None


def _wait_for(out: Path) -> None:
    """Wait for the lock of a run: a process whose owner was killed ends a moment later, and holds it until then."""
    from filelock import FileLock, Timeout

    lock = FileLock(out / ".lock")
    if out.is_dir():
        with suppress(Timeout):
            lock.acquire(timeout=PATIENCE)
            lock.release()


@contextmanager
def _scratch(task: Task) -> Iterator[Path]:
    """A folder for a task, the same one each time, unless a process that was thought lost still holds it."""
    from filelock import FileLock, Timeout

    home = cache.folder() / "trainings"
    home.mkdir(parents=True, exist_ok=True)
    folder = home / cache.key(**{name: task.get(name) for name in ("model", "data", "train", "changes", "out")})
    lock = FileLock(home / f".{folder.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        folder = Path(mkdtemp(dir=home))
    try:
        yield folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        lock.release()


@contextmanager
def _own_threads() -> Iterator[None]:
    """Restore the number of threads, which a continued run sets to its own."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
