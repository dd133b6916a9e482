"""`sublayer report`: one HTML page about runs, searches and comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.progress import Display

if TYPE_CHECKING:
    from sublayer.reports import Report


def report(
    *folders: str,
    out: str = "report.html",
    png: str | None = None,
    svg: str | None = None,
    sample: int = 120,
    open: Literal["yes", "no"] = "no",
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """One HTML page about runs, searches, comparisons, reproductions, supernets and proxies; no network.

    Examples: sublayer report runs · sublayer report search compare --out paper.html --svg figures

    Parameters
    ----------
    folders
        Folders that sublayer train, search, compare, reproduce, supernet or proxies made, or folders that hold some;
        their kind is recognised.
    out
        The file to write; an existing one is replaced.
    png
        A folder for the charts as PNG files.
    svg
        A folder for the charts as SVG files.
    sample
        Number of tokens that the best models write as a sample; 0 for none.
    open
        yes: open the page in a browser at the end.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON.
    """
    import_torch()
    import sublayer
    from sublayer.cli.words import load_plugins

    load_plugins(plugin or [])
    with Display("writing the report"):
        made = sublayer.report(folders, out, png=png, svg=svg, sample=sample)
    _print_json(made) if json else _print(made)
    if open == "yes":
        import webbrowser

        webbrowser.open(made.path.resolve().as_uri())


def _print_json(made: Report) -> None:
    import json
    from dataclasses import asdict

    print(json.dumps(asdict(made), indent=2, default=str))


def _print(made: Report) -> None:
    from sublayer.runs.wording import plural

    drawn = f"{plural(made.charts, 'chart')} from {plural(len(made.sections), 'folder')}"
    print(f"{made.path}: {made.size / 1e6:.1f} MB, {drawn}")
    for title in made.sections:
        print(f"  {title}")
    if made.pictures:
        folders = sorted({str(one.parent) for one in made.pictures})
        print(f"{plural(len(made.pictures), 'picture')} in {' and '.join(folders)}")
    for problem in made.problems:
        print(f"not read: {problem}")
