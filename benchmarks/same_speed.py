"""Race two checkouts against each other: a change that is not meant to cost time shows here that it does not.

    python benchmarks/same_speed.py --before ../old/src --after src --seconds 60

Each checkout has a process of its own, with its `src` first on the path, and does the work of train_step.py,
generate.py and feedback.py: training steps, texts written, the Feedback Transformer's steps. The two take turns, in an
order drawn anew each round, so that what slows the machine slows both. A ratio above 1 means that the checkout is
faster after the change. Exits with 1 where a ratio is surely below `--least`.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from rich.console import Console
from rich.table import Table

ROUNDS = 9
"""Least number of rounds for each kind of work."""


class Checkout:
    """A process that does one piece of work at a time and answers with its seconds and the others' share."""

    def __init__(self, source: Path, threads: int, script: str = __file__) -> None:
        if not (source / "sublayer" / "__init__.py").is_file():
            sys.exit(f"{source}: no sublayer/ there; give the src folder of a checkout")
        env = {**os.environ, "PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, script, "--work"]
        self.process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, name: str) -> tuple[float, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(name, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        if not answer:
            sys.exit(f"a checkout failed at {name}; see above")
        return float(answer[0]), float(answer[1])


def works() -> dict[str, Callable[[], Callable[[], object]]]:
    """Name → what makes the work ready and returns it."""
    import feedback
    import generate
    import train_step

    def write() -> Callable[[], object]:
        _, writers = generate.build(256, "gelu", peers=())
        return lambda: writers["ours"](generate.prompts(1, 64), 128)

    def write_feedback() -> Callable[[], object]:
        return feedback.writer(feedback.ours().build().eval(), 1, 64)

    shapes = {
        f"training step {shape}": lambda shape=shape: train_step.build("ours", train_step.Shape.parse(shape), "gelu")[1]
        for shape in train_step.SHAPES
    }
    return {
        **shapes,
        "128 tokens written": write,
        "feedback step, batch 16": lambda: feedback.trainer(feedback.ours(), 16),
        "feedback step, batch 64": lambda: feedback.trainer(feedback.ours(), 64),
        "feedback, 64 tokens written": write_feedback,
    }


def work() -> None:
    """The process of one checkout: a name a line, answered by a line."""
    made: dict[str, Callable[[], object]] = {}
    there = works()
    for line in sys.stdin:
        name = line.strip()
        if name not in made:
            made.clear()  # one model at a time
            made[name] = there[name]()
            for _ in range(2):
                made[name]()
        print(*harness.watched(made[name], time.perf_counter), flush=True)


def race(checkouts: dict[str, Checkout], name: str, seconds: float) -> harness.Race:
    done = harness.Race({side: [] for side in checkouts}, {side: [] for side in checkouts})
    for checkout in checkouts.values():
        checkout.run(name)  # builds its model
    order, dice, end = list(checkouts), random.Random(0), time.monotonic() + seconds
    while done.rounds < ROUNDS or time.monotonic() < end:
        dice.shuffle(order)
        for side in order:
            took, others = checkouts[side].run(name)
            done.seconds[side].append(took)
            done.others[side].append(others)
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the src folder of the checkout to compare with")
    parser.add_argument("--after", type=Path, default=Path("src"), help="the src folder of the changed checkout")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for each kind of work")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of each checkout")
    parser.add_argument("--least", type=float, default=0.98, help="the lowest ratio that is no loss")
    parser.add_argument("--only", default="", help="only work whose name contains this")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work()
        return 0
    if asked.before is None:
        parser.error("--before is missing: give the src folder of the checkout to compare with")
    checkouts = {side: Checkout(getattr(asked, side), asked.threads) for side in ("before", "after")}
    console, found, lost = Console(), dict[str, Any](), False
    table = Table("work", "before, ms", "after, ms", "after is faster by", "rounds", box=None)
    for name in works():
        if asked.only not in name:
            continue
        done = race(checkouts, name, asked.seconds)
        ratio = done.speedup("after", "before")
        lost |= ratio.verdict(asked.least) == "slower"
        times = (f"{1e3 * done.median(side):.1f}" for side in checkouts)
        console.print(f"{name}: {ratio}", style="dim")
        table.add_row(name, *times, str(ratio), str(done.rounds))
        found[name] = {"ratio": ratio.dump(), "race": done.dump()}
    console.print(table)
    console.print(f"written to {harness.write('same_speed', {'device': harness.fingerprint(), 'work': found})}")
    return int(lost)


if __name__ == "__main__":
    sys.exit(main())
