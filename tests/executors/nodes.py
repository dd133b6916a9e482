"""A Ray cluster of two nodes on this machine, one of which is killed in the midst of its task; prints what came of it.

`python -m tests.executors.nodes FOLDER` in a process of its own: Ray leaves threads and warnings behind.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from sublayer import executors
from tests.executors import tasks

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


def main(folder: Path) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    doomed = cluster.add_node(num_cpus=1, object_store_memory=NODE["object_store_memory"])
    cluster.wait_for_nodes()
    os.mkfifo(folder / "meeting")
    asked = [{"folder": str(folder), "number": n, "doomed": doomed.node_id} for n in range(4)]
    with executors.pool(ray=cluster.address) as pool:
        coming = pool.run(tasks.meet, asked)
        results = [next(iter(coming))]
        cluster.remove_node(doomed, allow_graceful=False)
        results += list(coming)
        refused = _refusal(pool)
        trained = _trained(pool, folder)
    cluster.shutdown()
    print(json.dumps({"results": results, "doomed": doomed.node_id, "refused": refused, "trained": trained}))  # noqa: T201


def _refusal(pool: executors.Pool) -> str:
    try:
        list(pool.run(tasks.refuse, [2]))
    except ValueError as error:
        return str(error)
    return ""


def _trained(pool: executors.Pool, folder: Path) -> dict[str, Any]:
    """A run that comes back whole, though it was not trained where it is; one whose text that node does not have."""
    from sublayer.executors.trainings import is_done, train_all
    from tests.executors.asked import task

    asked = [task(folder / "book.txt", folder / f"runs/{seed}", seed=seed) for seed in range(2)]
    runs = dict(train_all(pool, asked))
    missing = task(folder / "no.txt", folder / "runs/no")
    try:
        list(train_all(pool, [missing]))
        said = ""
    except ValueError as error:
        said = str(error)
    return {"done": [is_done(runs[n].path) for n in range(2)], "missing": said}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
