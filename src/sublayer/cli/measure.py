"""`sublayer measure`: time and memory of models on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.progress import Display

if TYPE_CHECKING:
    from sublayer.measurement import Reading
    from sublayer.nn.model import Model


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
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Time and peak memory of models on this machine, each measured in a process of its own.

    Examples: sublayer measure gpt2 · sublayer measure transformer-xl-base par-base --length 64 --memory 640 ·
    sublayer measure runs/first --task token --length 256 · sublayer measure gpt2 llama dim=256 vocab=256 s.heads=4

    Parameters
    ----------
    words
        Papers' names, JSON or TOML configs, folders of runs; then key=value, which apply to all of them.
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
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON.
    """
    import_torch()
    import sublayer
    from sublayer.cli.words import load_plugins, print_json, read_overrides

    load_plugins(plugin or [])
    names = [word for word in words if "=" not in word]
    changes = read_overrides(tuple(word for word in words if "=" in word))
    if not names:
        raise ValueError("measure: no model is named; give a paper (sublayer list), a config file or a run")
    setting: dict[str, Any] = {"task": task, "length": length, "memory": memory, "frozen": frozen}
    setting |= {"batch": batch, "threads": threads, "device": device}
    with Display("measuring", len(names)) as display:
        readings = sublayer.measure(
            *names,
            changes=changes,
            seconds=seconds,
            plugins=plugin or (),
            on_model=lambda number: display.update(number, status=names[number]),
            **setting,
        )
    for reading in readings:
        if reading.noise:
            raise ValueError(reading.noise)
    configs = [sublayer.api.model_config(name, changes) for name in names]
    rows = [_row(*one) for one in zip(names, configs, readings, strict=True)]
    used = sublayer.measurement.Setting().but(setting).resolved().dump()
    print_json({"setting": used, "models": rows}) if json else _print_table(rows, used)


def _row(name: str, config: Model.Config, reading: Reading) -> dict[str, Any]:
    layout = " → ".join(stack.layout for stack in config.stacks.values())
    return {"name": name, "layout": layout, "dim": config.dim, "params": config.cost().params, **reading.dump()}


def _print_table(rows: list[dict[str, Any]], setting: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from sublayer.cli.words import coloured, short
    from sublayer.runs.wording import plural

    console = Console(highlight=False)
    device = rows[0]["device"]
    console.print(f"{device['processor']}, {plural(setting['threads'], 'thread')}, {_task(setting)}", style="dim")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("model", overflow="fold")
    table.add_column("layout", overflow="fold")
    for title in ("params", "ms", "±", "repeats", "MB", "weights", "state", "activations"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        parts = [row["parts"][name] for name in ("weights", "state", "peak")]
        spread = (row["high"] - row["low"]) / 2 / row["latency"]
        figures = (f"{1e3 * row['latency']:.4g}", f"{100 * spread:.1f} %", str(row["repeats"]))
        sizes = (f"{size / 1e6:,.1f}" for size in (row["memory"], *parts))
        table.add_row(row["name"], coloured(row["layout"]), short(row["params"]), *figures, *sizes)
    console.print(table)


def _task(setting: dict[str, Any]) -> str:
    rows = "" if setting["batch"] == 1 else f", {setting['batch']} rows"
    length = f"{setting['length']:,}"
    words = {
        "segment": f"a segment of {length}",
        "prefill": f"a prompt of {length}",
        "token": f"one token after {length}",
    }
    return words[setting["task"]] + rows
