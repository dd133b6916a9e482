"""A drawing as a file: SVG by our own writer; PNG from it, by the extra `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sublayer.files.atomic import writing
from sublayer.reports.markup import Markup, tag
from sublayer.reports.patterns.drawing import Drawing
from sublayer.reports.patterns.svg import svg

ENDINGS = (".svg", ".png")
SHARP = 2
"""Pixels of a PNG for one of the SVG."""


def check(path: Path) -> None:
    """Refuse, before anything is drawn, what could not be written."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"--out {path}: a picture ends in .svg or .png; write --out pattern.svg")
    if path.is_dir():
        raise ValueError(f"--out {path}: a folder is there; give a file to write, as in --out pattern.svg")
    if path.suffix.lower() == ".png":
        _converter()


def write(drawing: Drawing, path: Path) -> Path:
    drawn = svg(drawing)
    with writing(path) as file:
        file.write(drawn.encode() if path.suffix.lower() == ".svg" else png(drawn))
    return path


def png(drawn: Markup) -> bytes:
    """On white, as most viewers show nothing behind a picture."""
    start = drawn.index(">") + 1
    behind = tag("rect", width="100%", height="100%", fill="white")
    return _converter().svg_to_png(f"{drawn[:start]}{behind}{drawn[start:]}", scale=SHARP)


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise ValueError(
            "a PNG needs vl-convert; pip install 'sublayer[report]', or write SVG: --out pattern.svg"
        ) from None
    return vl_convert
