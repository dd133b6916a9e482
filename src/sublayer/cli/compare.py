"""`sublayer compare`: variants trained alike, told side by side."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from sublayer.comparison import Variant


def compare(
    *words: str,
    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = "stdlib",
    out: str = "",
    tokens: str | None = None,
    steps: str | None = None,
    minutes: float | None = None,
    seeds: str = "3",
    equal_params: str | None = None,
    lr: str | None = None,
    workers: int = 1,
    ray: str | None = None,
    measure: bool = True,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train variants alike, with several seeds each, and tell them side by side; the same command goes on if stopped.

    Examples: sublayer compare gpt2 llama --data book.txt --tokens 1M --equal-params 500k layout='(sf)x4' s.heads=4 ·
    sublayer compare gpt2 'gpt2 position=rotary' 'gpt2 position=alibi' --steps 500 --out comparisons/positions dim=128
    layout='(sf)x4' s.heads=4 train.length=64

    The first variant is what the others are held against. Each gets its mean loss on valid after the budget with a
    95 % interval over seeds (Student's t), and a verdict from its differences to the first, seed by seed.

    Parameters
    ----------
    words
        Variants, and key=value changes for all of them. A variant is a paper's name or a file with a config; in
        quotes, it takes changes of its own along: 'gpt2 position=rotary dim=128'. They win over those for all.
    data
        The text, or task:NAME, as for sublayer train.
    out
        The folder of the comparison; comparisons/FIRST-SECOND-… if not given.
    tokens
        The budget: how much each variant reads with each seed (1M, 500k). Of several budgets, the one that is spent
        first ends a training.
    steps
        The budget in steps; with --tokens or --minutes, whichever is spent first.
    minutes
        The budget in wall time; results then depend on the machine.
    seeds
        How many (3: 0, 1 and 2), or which, with commas (3,5,8).
    equal_params
        As many parameters for all: a number (1M), or first. Widths are solved for, in multiples of the heads.
    lr
        Learning rate; of several, with commas, each is tried with the first seed, and each variant takes its best.
    workers
        How many train at the same time on this machine.
    ray
        Train on a Ray cluster instead: auto, local, or HOST:PORT.
    measure
        Measure latency and memory of each model here when all are trained.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON for other programs; it is in OUT/table.json, too.
    """
    import_torch()
    from sublayer import comparison, executors, measurement
    from sublayer.cli.board import Board
    from sublayer.cli.words import load_plugins, print_json, read_overrides, read_seeds

    plugins = plugin or []
    load_plugins(plugins)
    variants = [_variant(word) for word in words if not _is_change(word)]
    changes = read_overrides(tuple(word for word in words if _is_change(word)))
    rates = [] if lr is None else [_number("--lr", rate) for rate in lr.split(",")]
    changes |= {"train.lr": rates[0]} if len(rates) == 1 else {}
    changes |= {"train.tokens": _count("--tokens", tokens)} if tokens is not None else {}
    changes |= {"train.steps": _count("--steps", steps)} if steps is not None else {}
    changes |= {"train.minutes": minutes} if minutes is not None else {}
    place = out or f"comparisons/{'-'.join(comparison.slugs(variants))[:80]}"
    with executors.pool(ray, workers, plugins) as pool, Board() as board:
        table = comparison.compare(
            variants,
            data,
            place,
            changes,
            seeds=read_seeds(seeds),
            equal_params=_target(equal_params),
            lrs=rates if len(rates) > 1 else (),
            measure=(lambda models, how: measurement.measure(models, how, plugins=plugins)) if measure else None,
            pool=pool,
            told=board.begin,
        )
    print_json(table) if json else _print_table(table, place)


def _is_change(word: str) -> bool:
    """A variant begins with a name, a change with a key."""
    return "=" in word.split(" ")[0]


def _variant(word: str) -> Variant:
    from sublayer.cli.words import read_overrides
    from sublayer.comparison import Variant

    try:
        words = shlex.split(word)
    except ValueError as error:
        raise ValueError(f"{word!r} is not a variant: {error}; write 'gpt2 position=rotary'") from None
    if not words:
        raise ValueError(f"{word!r} is not a variant: it is empty; write 'gpt2 position=rotary'")
    return Variant.of(words[0], read_overrides(tuple(words[1:])))


def _count(option: str, said: str) -> int:
    """1M → 1,000,000."""
    sizes = {"k": 10**3, "m": 10**6, "g": 10**9}
    size = sizes.get(said[-1:].lower(), 1)
    found = _number(option, said[:-1] if size > 1 else said) * size
    if found < 1 or found != int(found):
        raise ValueError(f"{option} {said}: expected a whole number of at least 1, such as 500k or 1M")
    return int(found)


def _number(option: str, said: str) -> float:
    try:
        found = float(said)
    except ValueError:
        raise ValueError(f"{option} {said!r}: expected a number") from None
    if not 0 < found < float("inf"):
        raise ValueError(f"{option} {said}: expected a number above 0")
    return found


def _target(said: str | None) -> int | str | None:
    return said if said in (None, "first") else _count("--equal-params", said)


def _print_table(told: dict[str, Any], place: str) -> None:
    """How good they are, then how fast: two tables, so that each fits a narrow terminal."""
    from rich.console import Console

    from sublayer.cli.words import coloured, figures_table, short
    from sublayer.comparison.table import best_first
    from sublayer.runs.wording import command

    rows = best_first(told["rows"])
    other, title = ("accuracy", "accuracy") if any(row["accuracy"] for row in rows) else ("bits_per_byte", "bits/byte")
    good = figures_table(("variant", "layout"), ("params", "valid loss", title), ("against the first",))
    for row in rows:
        more = row[other]
        figures = (short(row["params"]), _mean(row), "—" if more is None else f"{more['mean']:.3f}")
        good.add_row(row["name"], coloured(row["layout"]), *figures, _against(row["difference"]))
    fast = figures_table(("variant",), ("tokens/s in training", "latency", "memory"))
    for row in rows:
        speed, latency, memory = row["tokens_per_second"], row["latency"], row["memory"]
        fast.add_row(
            row["name"],
            "—" if speed is None else short(round(speed)),
            "—" if latency is None else f"{1e3 * latency['latency']:.2f} ms",
            "—" if memory is None else f"{memory / 1e6:.1f} MB",
        )
    console = Console()
    console.print(good)
    print(*_remarks(told), "", sep="\n")
    console.print(fast)
    print(f"\n{command('report', place)} · {command('runs', f'{place}/runs')}")


def _mean(interval: dict[str, Any], form: str = ".3f") -> str:
    if interval["mean"] is None:
        return "—"
    half = "" if interval["high"] is None else f" ± {interval['high'] - interval['mean']:.3f}"
    return f"{interval['mean']:{form}}{half}"


def _against(difference: dict[str, Any] | None) -> str:
    if difference is None:
        return "is the first"
    if difference["mean"] is None:
        return difference["verdict"]
    return f"{difference['verdict']}, {_mean(difference, '+.3f')}"


def _remarks(told: dict[str, Any]) -> list[str]:
    """What the figures rest on."""
    seeds, rows = told["asked"]["seeds"], told["rows"]
    lines = [
        f"\n± is 95 % over {len(seeds)} seeds (Student's t)." if len(seeds) > 1 else "\nOne seed: no ±, no verdict."
    ]
    tokens = {row["tokens"] for row in rows}
    lines[0] += f" Each read {max(tokens):,} tokens." if len(tokens) == 1 else " Not all read as many tokens."
    if told["asked"]["equal_params"]:
        most = max(rows, key=lambda row: abs(row["params_off"]))
        lines.append(f"Parameters are equal to within {100 * abs(most['params_off']):.1f} % ({most['name']}).")
    if told["asked"]["lrs"]:
        lines.append("Learning rates: " + ", ".join(f"{row['name']} {row['lr']:g}" for row in rows) + ".")
    lines += [f"{row['name']}, seed {seed}: {why}" for row in rows for seed, why in row["diverged"].items()]
    return lines
