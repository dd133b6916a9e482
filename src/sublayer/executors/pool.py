"""Pool: where tasks are run. All pools give the same guarantees; they differ in where they run tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

Function = Callable[[Any], Any]


class Pool:
    """Abstract: every task is run once to its end; results come as they finish. A task's ValueError is raised in place
    of its result, and ends the run; a process or machine that dies costs only time."""

    shared: ClassVar[bool] = True
    """Whether tasks can read and write the files of this machine."""

    def run(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Pairs of a task's index and its result."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop all work."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class InProcess(Pool):
    """One task after another, in this process."""

    def run(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        for index, task in enumerate(tasks):
            yield index, function(task)


def pool(ray: str | None = None, workers: int = 1, plugins: Sequence[str] = ()) -> Pool:
    """This process, `workers` processes on this machine, or the machines of a Ray cluster.

    ray: `auto` for the cluster this machine belongs to, `host:port` for the one at that address, `local` for one of its
    own. plugins: modules that other processes must import, too.
    """
    if workers < 1:
        raise ValueError(f"workers={workers}: at least 1 is needed")
    if ray is not None:
        from sublayer.executors.cluster import Cluster

        if workers > 1:
            raise ValueError(
                f"workers={workers}: a Ray cluster works on as many tasks at once as it has processors; leave it out"
            )
        return Cluster(ray, plugins)
    if workers == 1:
        return InProcess()
    from sublayer.executors.processes import Processes

    return Processes(workers, plugins)
