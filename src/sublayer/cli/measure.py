"""`sublayer measure`: time and memory of models on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.progress import Display

if TYPE_CHECKING:
    from rich.console import Console

    from sublayer.measurement import Ratio, Reading
    from sublayer.nn.model import Model


CORRECTED = 0.05
"""Share by which a time is corrected before that is worth a note."""


def measure(
    *words: str,
    task: Literal["segment", "prefill", "token"] = "segment",
    length: int = 64,
    memory: int | None = None,
    frozen: Annotated[bool, Parameter(negative="")] = False,
    batch: int = 1,
    threads: int | None = None,
    device: str = "cpu",
    seconds: float = 3.0,
    wait: float = 30.0,
    anyway: Annotated[bool, Parameter(negative="")] = False,
    forget: Annotated[bool, Parameter(negative="")] = False,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Time and peak memory of models on this machine. Several models run in turn, so that their ratios hold.

    Times are those of the machine's quiet pace: a reference load beside each run shows how fast the machine is at that
    moment. What other programs disturb too much is measured again for a while, then refused.

    Examples: sublayer measure gpt2 · sublayer measure transformer-xl-base par-base --length 64 --memory 640 ·
    sublayer measure runs/first --task token --length 256 · sublayer measure gpt2 llama dim=256 vocab=256 s.heads=4

    Parameters
    ----------
    words
        Papers' names, JSON or TOML configs, folders of runs, candidates of a search (searches/first#12, #best,
        #fastest, #knee); then key=value, which apply to all of them.
    task
        segment: read and score a segment after the remembered tokens. prefill: read a prompt and score the token after
        it. token: write one more token, as sublayer generate does.
    length
        Number of tokens in the segment or the prompt; with token, of tokens before the one that is written.
    memory
        Number of remembered tokens before a segment; if not given, as many as the model holds.
    frozen
        Store remembered hidden states as keys and values (Transformer-XL) instead of projecting them again.
    batch
        Number of rows.
    threads
        Number of processor threads; if not given, one for each core.
    device
        cpu, cuda, …
    seconds
        The longest time to repeat one model; repeats end earlier when they agree.
    wait
        Seconds to go on trying while other programs disturb.
    anyway
        Print a figure that was disturbed, marked as such, instead of refusing it.
    forget
        Remove the readings that searches have stored for this machine, and its quiet pace; no model need be named.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON.
    """
    import_torch()
    import sublayer
    from sublayer.cli.words import is_change, load_plugins, print_json, read_overrides

    load_plugins(plugin or [])
    names = [word for word in words if not is_change(word)]
    changes = read_overrides(tuple(word for word in words if is_change(word)))
    if forget:
        _forget(device, threads, json)
    if forget and not names:
        return
    if not names:
        raise ValueError("measure: no model is named; give a paper (sublayer list), a config file or a run")
    setting: dict[str, Any] = {"task": task, "length": length, "memory": memory, "frozen": frozen}
    setting |= {"batch": batch, "threads": threads, "device": device}
    how: dict[str, Any] = {"changes": changes, "seconds": seconds, "wait": wait, "anyway": anyway}
    with Display("measuring") as display:
        display.begin_timed(f"measuring {', '.join(names)}", seconds * len(names))
        race = sublayer.race(*names, plugins=plugin or (), on_wait=lambda why: _waiting(display, why), **how, **setting)
    configs = [sublayer.api.model_config(name, changes) for name in names]
    rows = [_row(*one) for one in zip(names, configs, race.readings, race.ratios, strict=True)]
    used = sublayer.measurement.Setting().but(setting).resolved().dump()
    print_json({"setting": used, "models": rows}) if json else _print_table(rows, used)


def _forget(device: str, threads: int | None, json: bool) -> None:
    from sublayer.cli.words import print_json
    from sublayer.measurement.stored import forget
    from sublayer.runs.wording import plural

    count = forget(device, threads)
    print_json({"forgotten": count}) if json else print(f"{plural(count, 'stored reading')} removed")


def _waiting(display: Display, why: str) -> None:
    if display.phase != (phase := f"waiting, as {why}"):
        display.begin(phase)


def _row(name: str, config: Model.Config, reading: Reading, ratio: Ratio) -> dict[str, Any]:
    layout = " → ".join(stack.layout for stack in config.stacks.values())
    figures = {"name": name, "layout": layout, "dim": config.dim, "params": config.cost().params}
    return {**figures, **reading.dump(), "ratio": ratio.dump()}


def _print_table(rows: list[dict[str, Any]], setting: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from sublayer.cli.words import coloured, short
    from sublayer.runs.wording import plural

    console = Console(highlight=False)
    device = rows[0]["device"]
    console.print(f"{device['processor']}, {plural(setting['threads'], 'thread')}, {_task(setting)}", style="dim")
    console.print("measured: median latency in ms, peak memory in MB and its parts", style="dim")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("model", overflow="fold")
    table.add_column("layout", overflow="fold")
    several = len(rows) > 1
    fourth = "ratio" if several else "repeats"
    for title in ("params", "ms", "±", fourth, "MB", "weights", "state", "activations"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        parts = [row["parts"][name] for name in ("weights", "state", "peak")]
        spread = (row["high"] - row["low"]) / 2 / row["latency"]
        figures = [f"{1e3 * row['latency']:.4g}", f"{100 * spread:.1f} %"]
        figures += [_ratio(row["ratio"]) if several else str(row["repeats"])]
        sizes = (f"{size / 1e6:,.1f}" for size in (row["memory"], *parts))
        table.add_row(row["name"], coloured(row["layout"]), short(row["params"]), *figures, *sizes)
    console.print(table)
    for row in rows:
        _print_note(console, row)


def _ratio(ratio: dict[str, float]) -> str:
    """Of the latency to that of the first model."""
    spread = (ratio["high"] - ratio["low"]) / 2 / ratio["value"]
    return f"{ratio['value']:.3g} ±{100 * spread:.1f} %" if spread else "1"


def _print_note(console: Console, row: dict[str, Any]) -> None:
    """What disturbed a figure; or how far it was corrected, if that is more than a little."""
    clock = f"{row['name']}: the clock showed {1e3 * row['raw']:.4g} ms"
    if row["disturbed"]:
        console.print(f"{clock}; do not trust its time, as {row['disturbed']}", style="yellow")
    elif abs(row["raw"] / row["latency"] - 1) > CORRECTED:
        pace = 1 / row["conditions"]["slowdown"]
        console.print(f"{clock}, while the machine ran at {pace:.2f} of its quiet pace", style="dim")


def _task(setting: dict[str, Any]) -> str:
    rows = "" if setting["batch"] == 1 else f", {setting['batch']} rows"
    length = f"{setting['length']:,}"
    words = {
        "segment": f"a segment of {length}",
        "prefill": f"a prompt of {length}",
        "token": f"one token after {length}",
    }
    return words[setting["task"]] + rows
