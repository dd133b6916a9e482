"""Executors: one function on many tasks, in this process, in several, or on several machines.

from sublayer import executors

with executors.pool(workers=4) as pool:
    for index, result in pool.run(function, tasks):
        ...

Results come in the order in which tasks finish. Functions are importable by name; tasks and results are plain data.
"""

from sublayer.executors.pool import Pool, pool

__all__ = ["Pool", "pool"]
