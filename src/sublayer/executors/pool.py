"""Pool: where tasks are done. What a pool promises is the same for all; they differ in where they do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

Function = Callable[[Any], Any]


class Pool:
    """Abstract: every task done once to its end, results as they finish. An error of a task is raised where its result
    would come, as the ValueError it was, and ends the work; a process or machine that dies costs time only."""

    shared: ClassVar[bool] = True
    """Whether tasks see the files of this machine."""

    def run(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Pairs of a task's index and its result."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing goes on after this."""

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
    own. plugins: modules that the others must import, too.
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
