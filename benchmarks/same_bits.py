"""Compare two checkouts bit by bit: a change that is not meant to change behaviour shows here that it does not.

    python benchmarks/same_bits.py --before ../old/src --after src --expect gtrxl:"memory stores raw hidden states"

Each checkout computes in a process of its own (bits.py): hash and cost of every paper; initial weights, logits (in
segments, with the state carried on) and gradients of its small version; five trainings of 50 steps; logits of Hugging
Face checkpoints. Exits with 1 if anything differs that no --expect names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bits
from rich.console import Console
from rich.table import Table
from torch import Tensor


@dataclass(frozen=True)
class Difference:
    part: str
    """papers, trainings or huggingface."""
    name: str
    what: str
    detail: str


def compute(source: Path, folder: Path, out: Path) -> None:
    """Run bits.py with one checkout; its progress goes to our output."""
    if not (source / "sublayer" / "__init__.py").is_file():
        sys.exit(f"{source}: no sublayer/ there; give the src folder of a checkout")
    env = {**os.environ, "PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
    env["SUBLAYER_CACHE"] = str(out.with_suffix(".cache"))
    command = [sys.executable, str(Path(bits.__file__).resolve()), str(folder), str(out)]
    if code := subprocess.run(command, env=env, cwd=folder.parent).returncode:
        sys.exit(f"{source}: the computation failed with exit code {code}; see above")


def compare(before: Path, after: Path) -> tuple[dict[tuple[str, str], int], list[Difference]]:
    """Number of things compared per item, and what differs."""
    (values, tensors), (new_values, new_tensors) = bits.load(before), bits.load(after)
    compared: dict[tuple[str, str], int] = {}
    differences = []

    def note(part: str, name: str, what: str, detail: str | None) -> None:
        compared[part, name] = compared.get((part, name), 0) + 1
        if detail is not None:
            differences.append(Difference(part, name, what, detail))

    for part, items in values.items():
        for name, found in items.items():
            new = new_values[part].get(name, {})
            for what, value in found.items():
                note(part, name, what, _value_difference(value, new.get(what)))
    for item, stored in tensors.items():
        name, _, what = item.rpartition(".")
        part = "huggingface" if name.startswith("huggingface ") else "trainings" if what == "trained" else "papers"
        detail = _tensor_difference(stored, new_tensors.get(item, {}))
        note(part, name.removeprefix("huggingface "), what, detail)
    return compared, differences


def _value_difference(before: Any, after: Any) -> str | None:
    if before == after:
        return None
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        index = next(i for i, (one, other) in enumerate(zip(before, after, strict=True)) if one != other)
        before, after = f"[{index}] {before[index]}", after[index]
    return f"{_short(before)} → {_short(after)}"


def _tensor_difference(before: dict[str, Tensor], after: dict[str, Tensor]) -> str | None:
    if before.keys() != after.keys():
        return f"other names: {_short(sorted(before.keys() ^ after.keys()))}"
    for name, tensor in before.items():
        other = after[name]
        if tensor.shape != other.shape or tensor.dtype != other.dtype:
            return f"{name}: {tensor.dtype} {tuple(tensor.shape)} → {other.dtype} {tuple(other.shape)}"
        if tensor.numpy().tobytes() != other.numpy().tobytes():
            return f"{name}: off by up to {float((tensor - other).abs().max()):.3g}"
    return None


def _short(value: Any, most: int = 90) -> str:
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def show(compared: dict[tuple[str, str], int], differences: list[Difference], expected: dict[str, str]) -> bool:
    """Print the table; whether all that differs is expected."""
    table = Table("part", "item", "compared", "result", box=None)
    for (part, name), count in compared.items():
        found = [one for one in differences if (one.part, one.name) == (part, name)]
        result = "\n".join(f"{one.what}: {one.detail}" for one in found) or "same bits"
        if found and name in expected:
            result = f"differs as expected ({expected[name]}): " + ", ".join(one.what for one in found)
        table.add_row(part, name, str(count), result)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    console.print(table)
    unexpected = [one for one in differences if one.name not in expected]
    counted = f"{sum(compared.values())} comparisons of {len(compared)} items"
    print(f"{counted}: {len(differences)} differ, {len(unexpected)} of them unexpectedly")
    for name in expected.keys() - {one.name for one in differences}:
        print(f"{name}: expected to differ, but has the same bits")
    return not unexpected


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the src folder of the first checkout")
    parser.add_argument("--after", type=Path, required=True, help="the src folder of the second checkout")
    parser.add_argument(
        "--expect", action="append", default=[], metavar="PAPER:REASON", help="a difference that is meant"
    )
    args = parser.parse_args()
    expected = {name: reason for name, _, reason in (text.partition(":") for text in args.expect)}
    with tempfile.TemporaryDirectory() as folder:
        for side in ("before", "after"):
            source = getattr(args, side)
            print(f"{side}: {source}", flush=True)
            compute(source, Path(folder) / "input", Path(folder) / side)
        same = show(*compare(Path(folder) / "before", Path(folder) / "after"), expected)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
