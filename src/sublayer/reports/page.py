"""The page: one HTML file that needs nothing else, neither a network nor a second file.

- Charts are Vega-Lite specifications, drawn by one copy of Vega in the page; what several share is written once.
- A policy in the page allows only its own two scripts and no request, whatever the folders' files contain.
- The same folders give the same bytes.
"""

from __future__ import annotations

import hashlib
import textwrap
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

from sublayer.reports.charts import GREY, Figure
from sublayer.reports.markup import Markup, data, tag
from sublayer.reports.section import Section, command, key

LANGUAGE = "en"
MODERN = "6.4"
"""Of Vega-Lite, as vl-convert names it."""
TITLE = 100
"""Characters of a line above a picture."""
GLYPHS = {"ring": "○", "diamond": "◇", "line": "—", "dashes": "- -", "circle": "●"}
"""Marks of a key, where the chart has no legend for them."""


def page(sections: Sequence[Section], problems: Sequence[str], folders: Sequence[str]) -> str:
    charts = Charts()
    body = [_section(number, one, charts) for number, one in enumerate(sections)]
    scripts = [_bundle(), _own("page.js")]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content="sublayer report"),
        tag("title", _title(sections)),
        tag("style", Markup(_own("page.css"))),
    )
    main = tag("main", _header(sections, problems), body, _footer(folders))
    drawn = [data("datasets", charts.datasets), *charts.specs, *(tag("script", Markup(one)) for one in scripts)]
    whole = tag("html", head, tag("body", main, drawn if charts.specs else ""), lang=LANGUAGE)
    return f"<!doctype html>\n{whole}\n"


class Charts:
    """The page's specifications, and the datasets they share."""

    def __init__(self) -> None:
        self.datasets: dict[str, Any] = {}
        self.specs: list[Markup] = []

    def add(self, figure: Figure) -> str:
        """The id under which the page's script finds it."""
        spec = specification(figure)
        spec["width"] = "container"
        if figure.key:  # stands beside the chart
            _hush(spec)
        self.datasets |= spec["datasets"]
        spec["datasets"] = sorted(spec["datasets"])
        name = f"spec-{len(self.specs) + 1}"
        self.specs.append(data(name, spec))
        return name


def specification(figure: Figure) -> dict[str, Any]:
    """As plain data, its datasets apart; the same for the same figure."""
    spec = figure.chart.to_dict()
    spec.setdefault("datasets", {})
    spec.pop("$schema", None)
    return spec


def titled(figure: Figure) -> dict[str, Any]:
    """The specification of a picture that stands alone, with its title, its note and its key."""
    spec = specification(figure)
    key = ";  ".join(f"{GLYPHS.get(one.shape, '■')} {one.label}" for one in figure.key if not figure.has_legend)
    lines = [line for words in (figure.note, key) for line in textwrap.wrap(words, TITLE)]
    quiet = {"color": GREY, "subtitleColor": GREY, "subtitleFontSize": 11, "fontSize": 14, "subtitlePadding": 6}
    return {**spec, "title": {"text": figure.title, "subtitle": lines, "anchor": "start", "offset": 14, **quiet}}


def _hush(spec: dict[str, Any]) -> None:
    """Leave out the legends of names."""
    for view in (spec, *spec.get("layer", ())):
        colour = view.get("encoding", {}).get("color", {})
        if colour.get("type") == "nominal" and colour.get("scale"):  # without a scale it is a colour, not a name
            colour["legend"] = None


def _title(sections: Sequence[Section]) -> str:
    return sections[0].title if len(sections) == 1 else f"Report on {len(sections)} folders"


def _header(sections: Sequence[Section], problems: Sequence[str]) -> Markup:
    """Results first, then how they were obtained."""
    headlines = (
        tag("li", tag("a", one.title, href=f"#part-{number + 1}") if len(sections) > 1 else "", one.lead)
        for number, one in enumerate(sections)
    )
    lost = [tag("p", f"Not read: {problem}.", class_="aside") for problem in problems]
    return tag("header", tag("h1", _title(sections)), tag("ul", headlines, class_="headlines"), lost)


def _section(number: int, section: Section, charts: Charts) -> Markup:
    pieces: list[Markup] = []
    for drawn, group in groupby(section.body, key=lambda piece: isinstance(piece, Figure)):
        made = [_figure(piece, charts) if isinstance(piece, Figure) else piece for piece in group]
        pieces += [tag("div", made, class_="figures")] if drawn else made
    return tag("section", tag("h2", section.title), pieces, id=f"part-{number + 1}")


def _figure(figure: Figure, charts: Charts) -> Markup:
    caption = tag("figcaption", figure.title, tag("p", figure.note))
    label = f"Chart: {figure.title}. {figure.note}"
    without = tag("noscript", tag("p", "The chart needs JavaScript; the tables hold its figures.", class_="aside"))
    chart = tag("div", without, class_="chart", data_spec=charts.add(figure), role="img", aria_label=label)
    return tag("figure", caption, key(figure.key) if figure.key else "", chart)


def _footer(folders: Sequence[str]) -> Markup:
    again = command("sublayer", "report", *folders, "--out", "report.html")
    return tag("footer", tag("p", "This page was made from the files of the folders, by"), again)


def _policy(scripts: Sequence[str]) -> str:
    hashes = (b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts)
    ours = " ".join(f"'sha256-{one}'" for one in hashes)
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {ours}; {rest}"


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and what embeds them, as one script."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=MODERN)


def _own(name: str) -> str:
    return files("sublayer.reports").joinpath(name).read_text(encoding="utf-8")
