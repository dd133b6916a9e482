"""Bytes to token files and token files to batches, beside plain copies and the loop that nanoGPT made common.

- Loading: 100 MB through `prepare` with the byte tokenizer, into an empty cache (hashed, gathered, checksummed, flushed
  to disk) and out of it (hashed, checked), beside copying the file with a flush to disk and reading it into memory.
- Batching: `Windows` and `Lanes` beside one slice a row at random places, stacked; and each as a share of one training
  step (forward and backward, without dropout) of a small GPT-2 on such a batch. The step runs in the same rounds: timed
  apart, on a machine that got busier meanwhile, it would make the share look smaller than it is. One thread, unless
  told otherwise: threads of a step that wait for a busy core would do the same.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import harness
import numpy as np
import torch
from cyclopts import App
from rich.console import Console
from rich.table import Table

import sublayer
from sublayer.data import Batch, Batches, DataConfig, Lanes, Windows, prepare

MEGABYTE = 10**6
BATCHES = 200
KINDS = ("windows", "lanes")
GOAL = {"MB/s": 200, "share of a step": 0.02}


def make_text(path: Path, size: int) -> Path:
    """The standard library again and again, up to `size` bytes."""
    text = b"".join(piece.data for piece in DataConfig().source.build().joined())
    with open(path, "wb") as file:
        while file.tell() < size:
            file.write(text[: size - file.tell()])
    return path


def copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with open(target, "rb+") as file:
        os.fsync(file.fileno())


def loaders(text: Path, folder: Path) -> dict[str, Callable[[], object]]:
    config = DataConfig(source=str(text))

    def first() -> None:
        shutil.rmtree(folder / "empty", ignore_errors=True)
        prepare(config, folder / "empty")

    return {
        "first": first,
        "again": lambda: prepare(config, folder / "kept"),
        "copy": lambda: copy(text, folder / "copy"),
        "read": lambda: np.fromfile(text, np.uint8),
    }


def stacked(ids: np.ndarray, rows: int, length: int) -> Callable[[], Batch]:
    """One slice a row, as nanoGPT does it."""
    dice = torch.Generator().manual_seed(0)

    def take() -> Batch:
        places = torch.randint(len(ids) - length, (rows,), generator=dice).tolist()
        inputs_BL = torch.stack([torch.from_numpy(ids[i : i + length].astype(np.int64)) for i in places])
        targets_BL = torch.stack([torch.from_numpy(ids[i + 1 : i + 1 + length].astype(np.int64)) for i in places])
        return Batch(inputs_BL, targets_BL)

    return take


def batchers(ids: np.ndarray, rows: int, length: int) -> dict[str, Callable[[], object]]:
    takes: dict[str, Callable[[], Batch]] = {"stacked": stacked(ids, rows, length)}
    for kind in (Windows, Lanes):
        batches: Batches = kind(ids, rows, length)
        takes[batches.kind] = batches.__next__
    return {name: lambda take=take: [take() for _ in range(BATCHES)] for name, take in takes.items()}


def step(ids: np.ndarray, rows: int, length: int, dim: int, layers: int) -> Callable[[], None]:
    quiet = {"s.dropout": 0.0, "f.dropout": 0.0, "embedding.dropout": 0.0, "residual.dropout": 0.0}
    changes = {"s.heads": dim // 64, "position.limit": length, **quiet}
    model = sublayer.config("gpt2", changes, vocab=256, dim=dim, layout=f"(sf)x{layers}").build()
    batch = next(Windows(ids, rows, length))

    def run() -> None:
        model.zero_grad(set_to_none=True)
        h_BLD, _ = model(batch.inputs_BL)
        model.head.loss(h_BLD, batch.targets_BL).backward()

    return run


def speed_table(race: harness.Race, size: int) -> Table:
    table = Table("loading", "ms", "quartiles", "MB/s", "others took")
    table.title = f"{size / MEGABYTE:.0f} MB of bytes"
    for name in race.seconds:
        low, high = race.quartiles(name)
        rate = size / MEGABYTE / race.median(name)
        times = f"{1e3 * race.median(name):.0f}", f"{1e3 * low:.0f}–{1e3 * high:.0f}"
        table.add_row(name, *times, f"{rate:,.0f}", f"{np.median(race.others[name]):.0%}")
    return table


def share(race: harness.Race, name: str) -> tuple[float, float, float]:
    """One batch as a share of one step: the value, and its interval."""
    ratio = race.speedup(name, "step")
    low, high = ratio.interval
    return 1 / (BATCHES * ratio.value), 1 / (BATCHES * high), 1 / (BATCHES * low)


def batch_table(race: harness.Race, title: str) -> Table:
    table = Table("batches", "µs a batch", "quartiles", "share of a step", "others took", "against stacked")
    table.title = title
    for name in ("windows", "lanes", "stacked"):
        low, high = (1e6 * edge / BATCHES for edge in race.quartiles(name))
        value, least, most = share(race, name)
        ratio = "" if name == "stacked" else f"{race.speedup(name, 'stacked')}×"
        table.add_row(
            name,
            f"{1e6 * race.median(name) / BATCHES:.0f}",
            f"{low:.0f}–{high:.0f}",
            f"{value:.3%} [{least:.3%}, {most:.3%}]",
            f"{np.median(race.others[name]):.0%}",
            ratio,
        )
    low, high = (1e3 * edge for edge in race.quartiles("step"))
    others = f"{np.median(race.others['step']):.0%}"
    table.add_row("a step", f"{1e6 * race.median('step'):,.0f}", f"{low:.0f}–{high:.0f} ms", "", others, "")
    return table


app = App(name="data", help=__doc__.split("\n")[0], version_flags=[])


@app.default
def main(
    *,
    text: Path | None = None,
    megabytes: int = 100,
    rows: int = 8,
    length: int = 128,
    dim: int = 256,
    layers: int = 4,
    repeats: int = 7,
    seconds: float = 30.0,
    json_out: Path | None = None,
    threads: int = 1,
    clock: Literal["wall", "cpu"] = "wall",
) -> None:
    """How fast texts are loaded and batched.

    Parameters
    ----------
    text
        A file of bytes; if not given, the standard library is repeated to fill one.
    megabytes
        Its size then.
    rows
        Of a batch.
    length
        Of a row.
    dim
        Of the model whose step is the measure.
    layers
        Of that model.
    repeats
        Rounds at least.
    seconds
        Time for the rounds of each comparison beyond those.
    json_out
        Where the result goes; benchmarks/results/data.json if not given.
    threads
        Of the step.
    clock
        wall, or cpu (processor time, for a busy machine).
    """
    console = Console(width=None if Console().is_terminal else 140)
    tick = harness.CLOCKS[clock]
    torch.set_num_threads(threads)
    machine = harness.fingerprint("numpy")
    with tempfile.TemporaryDirectory(prefix="sublayer-data-") as folder:
        file = text or make_text(Path(folder) / "text", megabytes * MEGABYTE)
        size = file.stat().st_size
        options: dict[str, Any] = {"repeats": repeats, "seconds": seconds, "clock": tick}
        loading = harness.race(loaders(file, Path(folder)), "first", **options)
        console.print(speed_table(loading, size))
        ids = prepare(DataConfig(source=str(file)), Path(folder) / "kept").train.ids
        contestants = {**batchers(ids, rows, length), "step": step(ids, rows, length, dim, layers)}
        batching = harness.race(contestants, "windows", **options)
    console.print(batch_table(batching, f"{rows} rows of {length}; a step of {dim}/{layers}, {threads} thread(s)"))
    rates = {name: size / MEGABYTE / loading.median(name) for name in ("first", "again")}
    shares = {name: dict(zip(("share", "low", "high"), share(batching, name), strict=True)) for name in KINDS}
    for name, found in shares.items():
        held = "held" if found["high"] <= GOAL["share of a step"] else "not shown"
        console.print(f"{name}: {found['share']:.3%} of a step; goal ≤ {GOAL['share of a step']:.0%}, {held}")
    report = {
        "machine": machine,
        "clock": clock,
        "goals": GOAL,
        "bytes": size,
        "megabytes_a_second": rates,
        "loading": loading.dump(),
        "rows": rows,
        "length": length,
        "batches_a_round": BATCHES,
        "batching": batching.dump(),
        "share_of_a_step": shares,
    }
    console.print(f"written to {harness.write('data', report, json_out)}")


if __name__ == "__main__":
    app()
