"""`report`: the page, and its pictures as files of their own. `figures`: the charts, for a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.files.atomic import writing
from sublayer.reports import blocks
from sublayer.reports.assemble import build
from sublayer.reports.charts import altair
from sublayer.reports.page import MODERN, page, titled
from sublayer.reports.section import Section

SAMPLE = 120
"""Tokens that a model writes for the page."""
SHARP = 2.0
"""Pixels of a PNG to one of the chart."""


@dataclass(frozen=True)
class Report:
    """What was written."""

    path: Path
    size: int
    sections: list[str]
    charts: int
    pictures: list[Path]
    problems: list[str]


def report(
    folders: Sequence[str | Path] | str | Path,
    out: str | Path = "report.html",
    *,
    png: str | Path | None = None,
    svg: str | Path | None = None,
    sample: int = SAMPLE,
) -> Report:
    """One page from folders alone; with `png` or `svg`, each chart as a file in that folder, too."""
    given = [folders] if isinstance(folders, str | Path) else list(folders)
    if not given:
        raise ValueError("no folder was given; name at least one, as in sublayer report runs")
    if sample < 0:
        raise ValueError(f"sample={sample}: expected a number of tokens, 0 for none")
    altair()
    sections, problems = build([Path(one) for one in given], sample)
    whole = page(sections, problems, [str(one) for one in given]).encode(errors="replace")
    pictures = [_write(Path(folder) / name, image) for folder, name, image in _pictures(sections, png, svg)]
    path = _write(Path(out), whole)
    charts = sum(len(one.figures) for one in sections)
    return Report(path, len(whole), [one.title for one in sections], charts, pictures, problems)


def figures(folder: str | Path) -> dict[str, Any]:
    """A folder's charts by name, as Altair's; where several sections have the same, the later ones are numbered."""
    altair()
    sections, _ = build([Path(folder)], 0)
    return {name: chart.chart for name, chart in _named(sections, with_folder=False)}


def _named(sections: Sequence[Section], with_folder: bool) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for section in sections:
        prefix = f"{_slug(section.folder)}-" if with_folder else ""
        for figure in section.figures:
            yield _fresh(f"{prefix}{_slug(figure.name)}", seen), figure


def _pictures(
    sections: Sequence[Section], png: str | Path | None, svg: str | Path | None
) -> Iterator[tuple[str | Path, str, bytes]]:
    import vl_convert

    if png is None and svg is None:
        return
    for name, figure in _named(sections, with_folder=True):
        spec = titled(figure)
        if svg is not None:
            yield svg, f"{name}.svg", vl_convert.vegalite_to_svg(spec, vl_version=MODERN).encode()
        if png is not None:
            yield (
                png,
                f"{name}.png",
                vl_convert.vegalite_to_png({**spec, "background": "white"}, vl_version=MODERN, scale=SHARP),
            )
    seen: set[str] = set()
    for section in (one for one in sections if one.drawing):
        name, drawn = _fresh(f"{_slug(section.folder)}-layouts", seen), blocks.picture(section.drawing)
        if svg is not None:
            yield svg, f"{name}.svg", drawn.encode()
        if png is not None:
            yield png, f"{name}.png", vl_convert.svg_to_png(drawn, scale=SHARP)


def _write(path: Path, content: bytes) -> Path:
    if path.is_dir():
        raise ValueError(f"{path}: a folder is there; give a file to write, as in --out report.html")
    with writing(path) as file:
        file.write(content)
    return path


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", Path(name).name.lower()).strip("-") or "report"


def _fresh(name: str, seen: set[str]) -> str:
    """A name that no other has."""
    number, made = 1, name
    while made in seen:
        number += 1
        made = f"{name}-{number}"
    seen.add(made)
    return made
