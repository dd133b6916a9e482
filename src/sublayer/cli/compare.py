"""`sublayer compare`: variants trained alike and compared."""

from __future__ import annotations

import re
import shlex
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.comparing import ComparisonView
from sublayer.cli.lengths import print_lengths, read_lengths
from sublayer.cli.start import import_torch
from sublayer.cli.stopping import when_stopped
from sublayer.progress import Display

if TYPE_CHECKING:
    from sublayer.comparison import ComparisonRow, ComparisonTable, Variant
    from sublayer.comparison.interval import Interval
    from sublayer.comparison.records import Difference


NAMED = re.compile(r"\s*([^=:]*?)\s*:(?:\s+(.*))?", re.DOTALL)
"""A variant with its name: `rotary: gpt2 position=rotary`."""
EXAMPLE = "'gpt2 position=rotary', or with a name 'rotary: gpt2 position=rotary'"


def compare(
    *words: str,
    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = "stdlib",
    out: str = "",
    tokens: str | None = None,
    steps: str | None = None,
    minutes: float | None = None,
    lengths: str | None = None,
    seeds: str = "3",
    equal_params: str | None = None,
    lr: str | None = None,
    workers: int = 1,
    ray: str | None = None,
    measure: bool = True,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train variants alike, with several seeds each, and compare them; the same command continues if stopped.

    Examples: sublayer compare gpt2 llama --data book.txt --tokens 1M --equal-params 500k layout='(sf)x4' s.heads=4 ·
    sublayer compare 'base: gpt2' 'rotary: gpt2 position=rotary' 'par: gpt2 layout=par(5)' --steps 500 --out
    comparisons/positions dim=128 layout='(sf)x4' s.heads=4 train.length=64 · sublayer compare 'dense: gpt2
    position=rotary' 'linear: gpt2 position=rotary s.kernel=linear' --lengths 512,2k,8k --tokens 1M dim=128

    The others are compared with the first variant. Each gets its mean validation loss after the budget with a 95 %
    interval over seeds (Student's t), and a verdict from its differences to the first, seed by seed.

    Parameters
    ----------
    words
        Variants, and key=value changes for all of them. A variant is a model (a paper, a file with a config, the folder
        of a run, a candidate of a search such as searches/first#12), in quotes with changes of its own: 'gpt2
        position=rotary dim=128'. These override the changes for all; a layout rule such as layout=par(5) stands on the
        layout for all. 'rotary: gpt2 position=rotary' gives the variant a name; without one it is called by what
        differs from the others.
    data
        The text, or task:NAME or image:PATH, as for sublayer train.
    out
        The folder of the comparison; comparisons/FIRST-SECOND-… if not given.
    tokens
        Training tokens for each variant and seed (1M, 500k). Of several budgets, the one that is spent first ends a
        training.
    steps
        Training steps; with --tokens or --minutes, whichever is spent first.
    minutes
        Training time in minutes; results then depend on the machine.
    lengths
        Compare at each of these lengths of text (train.length), with commas: 512,2k,8k; k is 1,024. Time, memory and
        loss are listed by length, with the power of the length that fits time and memory; sublayer report draws them.
        A training step reads about as many tokens at every length: those of train.batch rows of the shortest, and at
        least one row of the longest. Memory of training is that of such a step; time and memory of a pass are those of
        one row. Each length is a comparison of its own, in OUT/length-512 and so on; the same command continues, and
        lengths of up to the tokens of a step may be added later.
    seeds
        Number of seeds (3: 0, 1 and 2), or the seeds with commas (3,5,8).
    equal_params
        Number of parameters of every variant (1M), or first: as many as the first has. Widths are chosen to fit.
    lr
        Learning rate. Several, with commas, are tried with the first seed, and each variant takes its best.
    workers
        Number of trainings at the same time on this machine.
    ray
        Train on a Ray cluster instead: auto, local, or HOST:PORT.
    measure
        After training, measure each model on this machine: latency and memory of a pass over train.length tokens, and
        the memory of training, by which a process grows that takes a few steps.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON, which is also in OUT/table.json, or with --lengths in OUT/lengths.json.
    """
    view = ComparisonView(Display("starting"))
    with when_stopped(view.stopped), view.display:
        import_torch()
        import sublayer
        from sublayer import executors
        from sublayer.cli.words import is_change, load_plugins, print_json, read_overrides, read_seeds

        load_plugins(plugin or [])
        variants = [_variant(word) for word in words if not is_change(word)]
        changes = read_overrides(tuple(word for word in words if is_change(word)))
        rates = [] if lr is None else [_number("--lr", rate) for rate in lr.split(",")]
        changes |= {"train.lr": rates[0]} if len(rates) == 1 else {}
        changes |= {"train.tokens": _count("--tokens", tokens)} if tokens is not None else {}
        changes |= {"train.steps": _count("--steps", steps)} if steps is not None else {}
        changes |= {"train.minutes": minutes} if minutes is not None else {}
        with executors.pool(ray, workers, plugin or []) as pool:
            how: dict[str, Any] = {
                "seeds": read_seeds(seeds),
                "equal_params": _target(equal_params),
                "lrs": rates if len(rates) > 1 else (),
                "measure": measure,
                "pool": pool,
                "plugins": plugin or [],
                "on_start": view.start,
                "on_phase": view.phase,
            }
            if lengths is None:
                table = sublayer.compare(variants, data, out, changes, **how)
                show = partial(_print_table, table)
            else:
                asked = read_lengths(lengths)
                table = sublayer.compare_lengths(
                    variants, data, out, changes, asked, on_length=view.begin_length, **how
                )
                show = partial(print_lengths, table)
    print_json(table.dump()) if json else show(str(view.folder))


def _variant(text: str) -> Variant:
    """`gpt2 position=rotary`, or with a name: `rotary: gpt2 position=rotary`."""
    from sublayer.cli.words import read_overrides
    from sublayer.comparison import Variant

    named = NAMED.fullmatch(text)
    try:
        words = shlex.split((named[2] or "") if named else text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a variant: {error}; write {EXAMPLE}") from None
    if not words or (named and not named[1]):
        raise ValueError(f"{text!r} is not a variant: {'its name' if words else 'it'} is empty; write {EXAMPLE}")
    return Variant.of(words[0], read_overrides(tuple(words[1:])), named[1] if named else None)


def _count(option: str, text: str) -> int:
    """1M → 1,000,000."""
    sizes = {"k": 10**3, "m": 10**6, "g": 10**9}
    size = sizes.get(text[-1:].lower(), 1)
    found = _number(option, text[:-1] if size > 1 else text) * size
    if found < 1 or found != int(found):
        raise ValueError(f"{option} {text}: expected a whole number of at least 1, such as 500k or 1M")
    return int(found)


def _number(option: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise ValueError(f"{option} {text!r}: expected a number") from None
    if not 0 < found < float("inf"):
        raise ValueError(f"{option} {text}: expected a number above 0")
    return found


def _target(text: str | None) -> int | str | None:
    return text if text in (None, "first") else _count("--equal-params", text)


def _print_table(table: ComparisonTable, folder: str) -> None:
    """What variants are compared by, then the other figures: two tables, so that each fits a narrow terminal."""
    from rich.console import Console

    from sublayer.cli.words import coloured, figures_table, short, two_lines
    from sublayer.runs.wording import command

    rows, labels = table.ranked, table.labels
    scored = (name for name in ("accuracy", "bits_per_dim") if any(getattr(row, name) for row in rows))
    other = next(scored, "bits_per_byte")
    titles = ("params", labels["mean"], labels[other])
    valid = figures_table(("variant", "layout"), tuple(map(two_lines, titles)), ("against the first",))
    for row in rows:
        figures = (short(row.params or 0), _mean(row), _score(getattr(row, other)))
        valid.add_row(row.name, coloured(row.layout), *figures, _against(row.difference))
    titles = (labels[name] for name in (f"test.{other}", "tokens_per_second", "latency", "memory", "step_memory"))
    more = figures_table(("variant",), tuple(map(two_lines, titles)))
    for row in rows:
        more.add_row(
            row.name,
            _score(getattr(row.test, other, None)),
            "—" if row.tokens_per_second is None else short(round(row.tokens_per_second)),
            "—" if row.latency is None else f"{1e3 * row.latency.latency:.2f} ms",
            *("—" if size is None else f"{size / 1e6:.1f} MB" for size in (row.memory, row.step_memory)),
        )
    console = Console()
    console.print(valid)
    print(*_remarks(table), "", sep="\n")
    console.print(more)
    print(f"\n{command('report', folder)} · {command('runs', f'{folder}/runs')}")


def _score(interval: Interval | None) -> str:
    return "—" if interval is None else f"{interval.mean:.3f}"


def _mean(interval: ComparisonRow | Difference, form: str = ".3f") -> str:
    if interval.mean is None:
        return "—"
    half = "" if interval.high is None else f" ± {interval.high - interval.mean:.3f}"
    return f"{interval.mean:{form}}{half}"


def _against(difference: Difference | None) -> str:
    if difference is None:
        return "is the first"
    if difference.mean is None:
        return difference.verdict
    return f"{difference.verdict}, valid loss {_mean(difference, '+.3f')}"


def _remarks(table: ComparisonTable) -> list[str]:
    """How to read the figures."""
    seeds, rows = table.asked["seeds"], table.rows
    lines = [
        f"\n± is 95 % over {len(seeds)} seeds (Student's t)." if len(seeds) > 1 else "\nOne seed: no ±, no verdict."
    ]
    tokens = {row.tokens or 0 for row in rows}
    lines[0] += f" Each read {max(tokens):,} tokens." if len(tokens) == 1 else " Not all read as many tokens."
    if table.asked["equal_params"]:
        most = max(rows, key=lambda row: abs(row.params_off or 0.0))
        lines.append(f"Parameters are equal to within {100 * abs(most.params_off or 0.0):.1f} % ({most.name}).")
    if table.asked["lrs"]:
        lines.append("Learning rates: " + ", ".join(f"{row.name} {row.lr:g}" for row in rows) + ".")
    lines += [f"{row.name}, seed {seed}: {why}" for row in rows for seed, why in row.diverged.items()]
    return lines
