"""What `import sublayer` offers: configs by name or file, changed by dotted keys; runs trained and loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublayer.keys import absolute, split
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.papers.named import config, names
from sublayer.plugins import load_installed_plugins, load_plugin

if TYPE_CHECKING:
    from sublayer.comparison import Variant
    from sublayer.measurement import Reading
    from sublayer.nas import Space
    from sublayer.reports import Report
    from sublayer.runs import Run
    from sublayer.trained import Trained

__all__ = [
    "compare",
    "config",
    "load",
    "load_installed_plugins",
    "load_plugin",
    "measure",
    "names",
    "report",
    "resume",
    "search",
    "train",
]


def train(
    name: str | Model.Config,
    data: str = "stdlib",
    out: str | Path = "runs/run",
    changes: Mapping[str, Any] | None = None,
    /,
    *,
    processes: int = 1,
    plugins: Sequence[str] = (),
    quiet: bool | None = None,
    **fields: Any,
) -> Run:
    """Train a paper's model, or one of your own, on a text: `sublayer.train("gpt2", "book.txt", "runs/book", dim=128)`.

    data: a file, a folder, a glob, `stdlib`, `-`, `task:copy`, … changes: as `fields`, but with dots in their names:
    "s.heads", "train.steps", "data.tokenizer".
    """
    from sublayer.data import Data
    from sublayer.training import TrainConfig
    from sublayer.training import train as train_run

    model, of = split({**(changes or {}), **fields})
    text = Data.Config.guess(absolute(data))
    return train_run(
        config(name) if isinstance(name, str) else name,
        text.override(of["data"], "data") if of["data"] else text,
        out,
        TrainConfig().override(of["train"], "train"),
        changes=model,
        processes=processes,
        plugins=plugins,
        quiet=quiet,
    )


def resume(
    run: str | Path,
    changes: Mapping[str, Any] | None = None,
    *,
    step: int | None = None,
    processes: int = 1,
    plugins: Sequence[str] = (),
    quiet: bool | None = None,
) -> Run:
    """Go on with a run, to the end of its budget or of a larger one: `sublayer.resume(run, {"train.steps": 2000})`."""
    from sublayer.training import resume as resume_run

    load_installed_plugins()
    _, of = split(changes or {})
    if key := next((key for key in changes or {} if not key.startswith("train.")), None):
        raise ConfigError(f"{key}: a run keeps its model and its data; only train.… keys can change on the way")
    return resume_run(run, of["train"], step=step, processes=processes, plugins=plugins, quiet=quiet)


def load(run: str | Path, *, step: int | None = None) -> Trained:
    """A trained model with its tokenizer: `sublayer.load("runs/book").generate("Once")`."""
    from sublayer.trained import Trained

    load_installed_plugins()
    return Trained.load(run, step)


def measure(*models: str | Model.Config, seconds: float = 3.0, **setting: Any) -> list[Reading]:
    """Time and peak memory on this machine: `sublayer.measure("gpt2", config, task="token", length=256)`."""
    from sublayer.measurement import Setting
    from sublayer.measurement import measure as measure_configs

    configs = [config(model) if isinstance(model, str) else model for model in models]
    return measure_configs(configs, Setting().but(setting), seconds=seconds)


def search(
    name: str | Space,
    data: str | None = None,
    out: str | Path = "searches/search",
    changes: Mapping[str, Any] | None = None,
    /,
    *,
    limits: Mapping[str, str | float | None] | None = None,
    setting: Mapping[str, Any] | None = None,
    train: int = 0,
    **how: Any,
) -> dict[str, Any]:
    """Models within limits on this machine: `sublayer.search("sublayers", "book.txt", limits={"latency": "5ms"})`.

    changes: choices and fixed values of the space, {"dim": "128..512/64", "s.heads": 4}, and train.… and data.… keys.
    train: how many of the front to train on the text. how: objectives, method, seed, population, iterations, …
    """
    from sublayer.data import DataConfig, prepare
    from sublayer.measurement import Setting
    from sublayer.nas import Space, read
    from sublayer.nas.on_device import fit, search_here
    from sublayer.training import TrainConfig

    load_installed_plugins()
    model, of = split(changes or {})
    text = None if data is None else prepare(DataConfig.guess(absolute(data)).override(of["data"], "data"))
    space = fit(name if isinstance(name, Space) else read(name, model), text, model)
    how |= {"setting": Setting().but(setting or {}), "limits": limits, "train": train}
    return search_here(space, out, text=text, training=TrainConfig().override(of["train"], "train"), **how)


def compare(variants: Sequence[str | Model.Config | Variant], *args: Any, **how: Any) -> dict[str, Any]:
    """Variants trained alike: `sublayer.compare(["gpt2", "llama"], "book.txt", "out", {"train.tokens": 1_000_000})`."""
    from sublayer.comparison import compare as compare_variants

    return compare_variants(variants, *args, **how)


def report(folders: Sequence[str | Path], out: str | Path = "report.html", **how: Any) -> Report:
    """One page about folders of runs, searches and comparisons: `sublayer.report(["runs"], "report.html")`."""
    from sublayer.reports import report as write_report

    load_installed_plugins()
    return write_report(folders, out, **how)
