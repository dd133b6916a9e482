"""Datastores: building one beside scoring the same text, and searching one beside faiss.

- Keys are real: those of a small model after a short training, of Python's own library as bytes, 1 M × 256 unless told
  otherwise. Queries are contexts of the same text that are not in the store.
- Searching: 256 queries, k = 16. Ours, exact, reads half-precision keys from a file; faiss's flat index has them in
  memory in single precision, and may multiply matrices at any size. Inverted lists and the graph are as `eval` uses
  them, with their recall; `with distances` adds what follows a search, exact distances from the keys.
- Building: tokens per second of a store without an index, beside `score` of the same tokens.
- Memory: peak resident memory of a process that searches a store of 4 GB (`--large`), and whether it runs where the
  system allows it 1 GB of memory of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import numpy as np
import torch
from cyclopts import App
from rich.console import Console
from rich.table import Table

import sublayer
from sublayer.evaluation import own_text, score
from sublayer.retrieval import Store, facts
from sublayer.retrieval.facts import IndexFacts, StoreFacts
from sublayer.retrieval.index import Exact, Hnsw, Index, Ivf
from sublayer.retrieval.index.library import library
from sublayer.retrieval.neighbours import search
from sublayer.trained import Trained

DIM, LAYERS, LENGTH = 256, 2, 256
QUERIES, NEIGHBOURS = 256, 16
GIGABYTE = 10**9
GOALS = {"build / score": 0.8, "exact / faiss flat": 1.0, "ivf / exact": 20.0, "recall of ivf": 0.95, "GB in use": 1.0}
app = App()


def train(folder: Path, steps: int) -> Trained:
    """A small model of bytes, briefly trained."""
    small = {"s.heads": 4, "f.inner": 4 * DIM, "train.steps": steps, "train.length": LENGTH, "train.batch": 8}
    small |= {"train.lr": 1e-3, "train.eval_every": steps, "position": "rotary"}
    run = sublayer.train("gpt2", "stdlib", folder / "run", small, dim=DIM, layout=f"(sf)x{LAYERS}")
    return sublayer.load(run.path)


def with_index(store: Store, config: Index.Config, folder: Path) -> tuple[Store, float]:
    """The same keys with another index, and the seconds that took."""
    begun = time.process_time()
    about = config.write(store.keys, folder / config.tag, lambda done, total: None)
    made = Store(store.path, store.facts, IndexFacts(config=config.dump(), about=about))
    made.__dict__["index"] = config.open(store.keys, folder / config.tag)
    return made, time.process_time() - begun


def recall(exact: Store, other: Store, queries_QD: torch.Tensor) -> float:
    there, here = (search([store], queries_QD, NEIGHBOURS).distance_QK for store in (exact, other))
    return float((here <= there[:, -1:]).mean())


def queries_of(trained: Trained) -> torch.Tensor:
    """Keys of contexts in the test split."""
    with tempfile.TemporaryDirectory() as folder:
        store = trained.build_datastore(
            own_text(trained.run, "test"), Path(folder), index=Exact.Config(), limit=20_000, dtype="float32"
        )
        return store.keys.rows(store.keys.sample(QUERIES, seed=1))


def searching(
    store: Store, queries_QD: torch.Tensor, folder: Path, hnsw: bool
) -> tuple[dict[str, Callable[[], object]], dict[str, Any]]:
    """Contestants, and what is known of the indexes."""
    faiss = library("flat")
    flat = faiss.IndexFlatL2(DIM)
    for _, keys_PD in store.keys.pieces():
        flat.add(keys_PD.numpy())
    scaled = queries_QD * store.facts.scale
    runs: dict[str, Callable[[], object]] = {
        "exact": lambda: store.index.search(scaled, NEIGHBOURS),
        "faiss flat": lambda: flat.search(scaled.numpy(), NEIGHBOURS),
        "exact, with distances": lambda: search([store], queries_QD, NEIGHBOURS),
    }
    about = {}
    for config in (Ivf.Config(), *((Hnsw.Config(),) if hnsw else ())):
        made, took = with_index(store, config, folder)
        about[config.tag] = {
            "recall": recall(store, made, queries_QD),
            "built in": took,
            "MB": (folder / config.tag).stat().st_size / 1e6,
        }
        runs[config.tag] = lambda made=made: made.index.search(scaled, NEIGHBOURS)
        runs[f"{config.tag}, with distances"] = lambda made=made: search([made], queries_QD, NEIGHBOURS)
    return runs, about


def building(trained: Trained, tokens: int, folder: Path) -> dict[str, Callable[[], object]]:
    text, count = own_text(trained.run, "train"), iter(range(10**6))

    def build() -> None:
        path = folder / f"built-{next(count)}"
        trained.build_datastore(text, path, index=Exact.Config(), limit=tokens)
        for file in path.glob("*.bin"):
            file.unlink()

    def evaluate() -> None:
        score(trained.model, text.tokens, length=LENGTH, limit=tokens)

    return {"build": build, "score": evaluate}


def large_store(folder: Path, gigabytes: float) -> Path:
    """Keys drawn at random, as many as fill a file of this size."""
    count = int(gigabytes * GIGABYTE) // (2 * DIM)
    dice, path = np.random.default_rng(0), folder / "large"
    path.mkdir()
    some = dice.normal(size=(1 << 16, DIM)).astype(np.float16)
    with open(path / facts.KEYS, "wb") as file:
        for start in range(0, count, len(some)):
            file.write((some + np.float16(start % 97))[: count - start].tobytes())
    np.zeros(count, np.uint8).tofile(path / facts.TOKENS)
    from sublayer.retrieval.vectors import crc32

    checksums = {name: crc32(path / name) for name in (facts.KEYS, facts.TOKENS)}
    names = dict.fromkeys(("model", "run", "tokenizer", "text", "title", "split"), "none")
    sizes = {"step": 0, "vocab": 256, "start": 0, "stop": count + 1, "entries": count, "dim": DIM, "batch": 1}
    how = {"key": "final", "dtype": "float16", "length": 1, "stride": 1, "carry": False, "memory": None}
    StoreFacts(**names, **sizes, **how, scale=1.0, crc32=checksums).write(path / facts.FACTS)
    return path


LIMITED = """
import json, re, resource, sys, time
from pathlib import Path
resource.setrlimit(resource.RLIMIT_DATA, (10**9, 10**9))
import torch
torch.set_num_threads(1)
from sublayer.retrieval import Store
from sublayer.retrieval.neighbours import search
def peak():  # ru_maxrss would be that of the parent, too
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1e6
before = peak()
begun = time.perf_counter()
store = Store.open(sys.argv[1])
opened = time.perf_counter() - begun
found = search([store], torch.zeros(256, store.facts.dim), 1024)
print(json.dumps({"entries": len(store), "found": found.entry_QK.shape[1], "seconds to open": opened,
    "seconds": time.perf_counter() - begun,
    "GB before": before, "GB": peak()}))
"""


def limited(path: Path) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def table(title: str, race: harness.Race, per: float = 1.0, unit: str = "ms") -> Table:
    made = Table("contestant", unit, "quartiles", title=title)
    for name in race.seconds:
        low, high = race.quartiles(name)
        figures = (race.median(name), low, high)
        shown = [f"{per / one:,.0f}" if per != 1 else f"{1e3 * one:,.1f}" for one in figures]
        made.add_row(name, shown[0], f"{shown[1]}–{shown[2]}")
    return made


@app.default
def main(
    *,
    keys: int = 1_000_000,
    steps: int = 200,
    build_tokens: int = 200_000,
    repeats: int = 5,
    seconds: float = 0.0,
    hnsw: bool = False,
    large: float = 0.0,
    cpu: bool = False,
    json_out: Path | None = None,
) -> None:
    """Building and searching datastores.

    Parameters
    ----------
    keys
        Keys of the store that is searched.
    steps
        Steps of training of the model that makes them.
    build_tokens
        Tokens of the store that is built beside scoring.
    repeats
        Rounds at least.
    seconds
        Time for rounds beyond those.
    hnsw
        Whether the graph takes part, which takes minutes to build.
    large
        Gigabytes of a store that is searched by a process limited to 1 GB; 0 leaves that out.
    cpu
        Time on the processor instead of what a user waits: for a machine that is busy.
    json_out
        Where the result goes; benchmarks/results/retrieval.json if not given.
    """
    console = Console(width=None if Console().is_terminal else 120)
    torch.set_num_threads(1)
    machine, clock = harness.fingerprint("faiss-cpu"), harness.CLOCKS["cpu" if cpu else "wall"]
    how: dict[str, Any] = {"repeats": repeats, "seconds": seconds, "warm_up": 1, "clock": clock}
    result: dict[str, Any] = {"machine": machine, "keys": keys, "goals": GOALS}
    goals: dict[str, harness.Ratio | float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trained = train(folder, steps)
        built = harness.race(building(trained, build_tokens, folder), "build", **how)
        console.print(table(f"{build_tokens:,} tokens", built, build_tokens, "tokens/s"))
        goals["build / score"] = built.speedup("build", "score")
        store = trained.build_datastore(
            own_text(trained.run, "train"), folder / "store", index=Exact.Config(), limit=keys
        )
        runs, about = searching(store, queries_of(trained), folder, hnsw)
        raced = harness.race(runs, "exact", **how)
        console.print(table(f"{QUERIES} queries over {len(store):,} × {DIM}, k = {NEIGHBOURS}", raced))
        goals |= {
            "exact / faiss flat": raced.speedup("exact", "faiss flat"),
            "ivf / exact": raced.speedup("ivf", "exact"),
        }
        goals["recall of ivf"] = about["ivf"]["recall"]
        result |= {"building": built.dump(), "searching": raced.dump(), "indexes": about}
        if large:
            result["limited"] = limited(large_store(folder, large))
            console.print(result["limited"])
            goals["GB in use"] = result["limited"]["GB"]
    console.print(about)
    for goal, value in goals.items():
        console.print(f"{goal}: {value if isinstance(value, harness.Ratio) else f'{value:.3f}'} (wanted {GOALS[goal]})")
    result["measured"] = {k: v.dump() if isinstance(v, harness.Ratio) else v for k, v in goals.items()}
    console.print(f"written to {harness.write('retrieval', result, json_out)}")


if __name__ == "__main__":
    app()
