"""Models by name: a paper, a JSON or TOML config, the folder of a run, a candidate of a search (`searches/x#294`).

Rooms that a paper does not need are imported only where a name asks for them: `sublayer show gpt2` answers sooner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublayer.nn.model import Model
from sublayer.papers import named, registry
from sublayer.plugins import load_installed_plugins

if TYPE_CHECKING:
    from sublayer.nas.point import Point
    from sublayer.runs import Run

FILES = (".json", ".toml")


@dataclass(frozen=True)
class NamedModel:
    name: str
    """As typed, but a candidate has the number of its trial: `searches/x#best` → `searches/x#294`."""
    config: Model.Config
    point: Point | None = None
    """Of a candidate."""
    run: Run | None = None


def find(name: str) -> NamedModel:
    """A paper's name comes first; write ./gpt2 for a folder of that name."""
    load_installed_plugins()
    registry.discover()
    if name not in registry.PAPERS:
        if is_point(name):
            from sublayer.nas.point import read_point

            point = read_point(name)
            return NamedModel(point.name, point.config, point=point)
        if Path(name).is_dir():
            return _in_folder(name)
        if Path(name).is_file():
            _refuse_search(name)
    return NamedModel(name, named.config(name))


def config(name: str, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> Model.Config:
    """The config of a paper, a file, a run or a candidate: `sublayer.config("gpt2", {"s.heads": 4}, dim=256)`."""
    base = find(name).config
    return base.but(changes, **fields) if changes or fields else base


def is_point(name: str) -> bool:
    """Whether a name means a candidate of a search; a file or a folder may have a # in its name, too."""
    return "#" in name and not name.endswith(FILES) and not Path(name).exists()


def _in_folder(name: str) -> NamedModel:
    from sublayer.runs import Run
    from sublayer.runs.run import ASKED

    if not (Path(name) / ASKED).is_file():
        _refuse_search(name)
        raise ValueError(
            f"{name}: a folder without a run or a search; give a paper's name (sublayer list), a JSON or TOML config, "
            "the folder of a run, or a candidate of a search, such as searches/first#12"
        )
    run = Run.open(name)
    return NamedModel(name, run.model_config, run=run)


def _refuse_search(name: str) -> None:
    """Refuse the folder of a search, or a file of it: it has many models."""
    from sublayer.nas.folder import FRONT, REQUEST

    path = Path(name)
    folder = path if path.is_dir() else path.parent if path.name in (FRONT, REQUEST) else None
    if folder is not None and (folder / REQUEST).is_file():
        from sublayer.nas.point import several

        raise ValueError(f"{name}: {several(folder)}")
