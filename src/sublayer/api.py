"""What `import sublayer` offers: configs by name or file, changed by dotted keys; runs trained and loaded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from glob import has_magic
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.papers import registry

if TYPE_CHECKING:
    from sublayer.comparison import Variant
    from sublayer.measurement import Reading
    from sublayer.nas import Space
    from sublayer.reports import Report
    from sublayer.runs import Run
    from sublayer.trained import Trained


def config(name: str, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> Model.Config:
    """The config of a paper, or of a JSON or TOML file: `sublayer.config("gpt2", {"s.heads": 4}, dim=256)`."""
    load_installed_plugins()
    base = _from_file(Path(name)) if name.endswith((".json", ".toml")) else registry.config(name)
    return base.but(changes, **fields) if changes or fields else base


def names(pattern: str = "*") -> list[str]:
    """The papers whose name matches, parents before children."""
    load_installed_plugins()
    return registry.names(pattern)


def load_plugin(module: str) -> None:
    """Import a module that registers parts or papers of its own."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"plug-in {module!r} cannot be imported: {error}. Give a module name that Python finds, as in "
            "--plugin my_parts with my_parts.py in the current folder"
        ) from None


@cache
def load_installed_plugins() -> None:
    """Import what installed packages declare under the entry point `sublayer.plugins`."""
    for plugin in entry_points(group="sublayer.plugins"):
        load_plugin(plugin.module)


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


def absolute(data: str) -> str:
    """A file, folder or pattern, wherever the run is resumed from."""
    path = Path(data).expanduser()
    return str(Path.cwd() / path) if (data and path.exists()) or has_magic(data) else data


def split(changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The model's keys, and those of data and train without their prefix."""
    of: dict[str, dict[str, Any]] = {"data": {}, "train": {}}
    model = {}
    for key, value in changes.items():
        room, _, rest = key.partition(".")
        if room in of and rest:
            of[room][rest] = value
        else:
            model[key] = value
    return model, of


def _from_file(path: Path) -> Model.Config:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; give a paper's name, or a JSON or TOML config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    try:
        return Model.Config.from_json(text) if path.suffix == ".json" else Model.Config.from_toml(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
