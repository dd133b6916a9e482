"""`sublayer measure`: what models take on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from sublayer.measurement import Reading, Setting
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
        segment: read and score a segment after what is remembered. prefill: read a prompt and score the token after it.
        token: write one more token, as sublayer generate does.
    length
        Tokens of the segment or of the prompt; with token, those that are there already.
    memory
        Tokens that a segment remembers; if not given, as many as the model keeps of earlier segments.
    frozen
        Remembered hidden states are kept as keys and values (Transformer-XL), not projected again.
    batch
        Rows at a time.
    threads
        Processor threads; if not given, one for each core.
    device
        cpu, cuda, …
    seconds
        The longest time to spend on repeats of one model; they end earlier when they agree.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON for other programs.
    """
    import_torch()
    from rich.console import Console
    from rich.progress import Progress

    from sublayer.cli.words import load_plugins, print_json, read_overrides
    from sublayer.measurement import Setting, need
    from sublayer.measurement import measure as measure_models

    load_plugins(plugin or [])
    names = [word for word in words if "=" not in word]
    changes = read_overrides(tuple(word for word in words if "=" in word))
    if not names:
        raise ValueError("measure: no model is named; give a paper (sublayer list), a config file or a run")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"seconds={seconds:g}: repeats take time, and have to end; give a number above 0")
    how = Setting.parse(
        {"task": task, "length": length, "memory": memory, "frozen": frozen}
        | {"batch": batch, "threads": threads, "device": device}
    )
    _check(how)
    configs = [_config(name, changes) for name in names]
    for config in configs:
        how.check(config)
        need.check(config, how)
        if frozen and not config.carries:
            raise ValueError(f"--frozen: {config.tag} {config.dim} remembers no hidden states; leave it out")
    rows, console = [], Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = bar.add_task("", total=len(configs))
        for name, config in zip(names, configs, strict=True):
            bar.update(shown, description=f"measuring {name}")
            reading = measure_models([config], how, seconds=seconds, plugins=plugin or ())[0]
            if reading.noise:
                raise ValueError(reading.noise)
            rows.append(_row(name, config, reading))
            bar.advance(shown)
    setting = how.resolved()
    print_json({"setting": setting.dump(), "models": rows}) if json else _print_table(rows, setting.dump())


def _check(setting: Setting) -> None:
    """What would be ignored, or would fail in another process, is said here."""
    from sublayer.training.distribution import find_device

    if setting.task != "segment" and (setting.memory or setting.frozen):
        raise ValueError(f"task={setting.task}: --memory and --frozen are a segment's; leave them out, or use segment")
    find_device(setting.device, key="device")


def _config(name: str, changes: dict[str, Any]) -> Model.Config:
    from pathlib import Path

    import sublayer
    from sublayer.runs import Run

    if (Path(name) / "run.json").exists():
        config = Run.open(name).model_config
        return config.but(changes) if changes else config
    return sublayer.config(name, changes)


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
