"""A differentiable search: the data of figures 2, 3 and 4 of Mandava et al. 2020, from this search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sublayer.reports import blocks
from sublayer.reports.charts import ACCENT, GREY, PALE, Figure, Rows, altair, by_name, look, table
from sublayer.reports.folders import KINDS, Found, read_asked
from sublayer.reports.history import History
from sublayer.reports.markup import Markup
from sublayer.reports.section import Column, Section, facts, folded, heading, key, model_cell, paragraph
from sublayer.reports.section import table as html_table
from sublayer.reports.sections import runs as run_pieces
from sublayer.reports.sections.asked import again
from sublayer.runs.record import Record
from sublayer.runs.wording import plural

THIRDS = ("first third", "second third", "last third")


class Spread(Record):
    mean: float
    std: float = 0.0
    counts: list[int] = []


class Base(Record):
    layout: str = ""
    attention: int | None = None
    seeds: list[int] = []
    mean: float | None
    """None if all diverged."""
    std: float | None = 0.0


class Point(Record):
    seed: int | None = None
    p: float | None = None
    word: str = ""
    layout: str | None = ""
    attention: int
    perplexity: float | None = None


class Points(Record):
    points: list[Point] = []


class Thirds(Record):
    thirds: list[dict[str, Spread]] = []


class Figures(Record):
    """figures.json."""

    places: int = 0
    letters: str = "sf-"
    base: Base | None = None
    diverged: dict[str, str] = {}
    figure2: Points
    figure3: Thirds = Thirds()
    figure4: Points = Points()

    @property
    def found(self) -> list[Point]:
        return [one for one in self.figure2.points if one.perplexity is not None]


def section(found: Found, runs: Sequence[History], tokens: int) -> Section:
    result, asked = KINDS["supernet"]
    said = Figures.read(found.path / result)
    drawn = (_attention(said), _thirds(said), _par(said))
    body: list[Markup | Figure] = [piece for piece in drawn if piece]
    body += [heading("What was found"), key(_key(said)), _table(said)]
    body += [paragraph(f"{name} diverged: {why}") for name, why in said.diverged.items()]
    if runs:
        groups = [run.run.path.name.rpartition("-")[0] for run in runs]
        body += [heading("Trained from scratch"), *run_pieces.pieces(runs, tokens, groups)]
    environment = read_asked(found.path / "environment.json")
    body += [folded("Device", facts(environment))] if environment else []
    body += again("supernet", found.path, read_asked(found.path / asked))
    models = [(f"seed {one.seed}", one.layout, None) for one in said.figure2.points if one.layout]
    return Section("Supernet", str(found.path), _headline(said), body, models)


def _headline(said: Figures) -> str:
    points = said.figure2.points
    if not points:
        return "No seed has come to its end yet."
    counts = [one.attention for one in points]
    few, most = min(counts), max(counts)
    many = plural(few, "attention") if few == most else f"{few} to {most} attentions"
    words = f"Searched over {plural(said.places, 'place')}, {plural(len(points), 'seed')} chose {many}"
    if said.base and said.base.attention is not None:
        words += f", where the base has {said.base.attention}"
    if said.found and said.base and said.base.mean is not None:
        best = min(said.found, key=lambda one: one.perplexity or 0.0)
        base = f"{said.base.mean:.4g} ± {said.base.std:.2g}"
        words += f". The best found reaches perplexity {best.perplexity:.4g}, the base {base}"
    last = said.figure3.thirds[-1] if len(said.figure3.thirds) == 3 else {}
    if "s" in last:
        words += f". On average {last['s'].mean:.2g} of the attentions stand in the last third"
    return words + "."


def _table(said: Figures) -> Markup:
    rows: list[tuple[str, str, str, int | None, float | None]] = []
    if said.base:
        rows.append(("base", said.base.layout, "", said.base.attention, said.base.mean))
    rows += [
        (f"searched, seed {one.seed}", one.layout or "", one.word, one.attention, one.perplexity)
        for one in said.figure2.points
    ]
    rows += [
        (f"PAR({one.p:g})", one.layout or "", "", one.attention, one.perplexity)
        for one in said.figure4.points
        if one.p is not None
    ]
    cells = [blocks.word(word) if word else "" for _, _, word, _, _ in rows]
    columns = [
        Column("model", [row[0] for row in rows], number=False),
        Column("layout", [model_cell(row[1], None) if row[1] else "" for row in rows], number=False),
        Column("places", cells, number=False),
        Column("attentions", ["—" if row[3] is None else str(row[3]) for row in rows]),
        Column("perplexity", ["—" if row[4] is None else f"{row[4]:.3f}" for row in rows]),
    ]
    return html_table(columns, "The base, what each seed found (pale: identity), and PAR's rule")


def _attention(said: Figures) -> Figure | None:
    """Figure 2."""
    rows: Rows = [
        {"x": one.attention, "y": one.perplexity, "name": f"seed {one.seed}", "layout": one.layout}
        for one in said.found
    ]
    if not rows:
        return None
    xs = [row["x"] for row in rows] + ([said.base.attention] if said.base and said.base.attention is not None else [])
    note = "Dots: models found, trained from scratch. Band: the base, mean ± standard deviation over seeds."
    return _banded(
        "attention", "Perplexity against the number of attentions", note, rows, "attention sublayers", said.base, xs
    )


def _par(said: Figures) -> Figure | None:
    """Figure 4."""
    rows: Rows = [
        {"x": one.p, "y": one.perplexity, "name": f"PAR({one.p:g})", "layout": one.layout}
        for one in said.figure4.points
        if one.p is not None and one.perplexity is not None
    ]
    if not rows:
        return None
    note = "A coefficient of p leaves one attention in p sublayers. Band: the base, mean ± standard deviation."
    return _banded(
        "par",
        "Perplexity against the PAR coefficient",
        note,
        rows,
        "PAR coefficient p",
        said.base,
        [row["x"] for row in rows],
    )


def _banded(name: str, title: str, note: str, rows: Rows, label: str, base: Base | None, xs: Sequence[Any]) -> Figure:
    alt = altair()
    x = alt.X(
        "x:Q",
        title=label,
        scale=alt.Scale(zero=False, domain=[min(xs) - 0.5, max(xs) + 0.5], nice=False),
        axis=alt.Axis(tickMinStep=1),
    )
    y = alt.Y("y:Q", title="perplexity, less is better", scale=alt.Scale(zero=False))
    tips = [alt.Tooltip("name:N", title="model"), alt.Tooltip("layout:N", title="layout")]
    tips += [alt.Tooltip("x:Q", title=label), alt.Tooltip("y:Q", title="perplexity", format=".4~f")]
    layers = []
    if base is not None and base.mean is not None and base.std is not None:
        band: Rows = [{"low": base.mean - base.std, "high": base.mean + base.std, "mean": base.mean}]
        around = alt.Chart(table(band))
        layers.append(
            around.mark_rect(color=PALE, opacity=0.25).encode(
                y=alt.Y("low:Q", scale=alt.Scale(zero=False)), y2="high:Q"
            )
        )
        layers.append(around.mark_rule(color=GREY, strokeDash=[4, 4]).encode(y=alt.Y("mean:Q")))
    dots = alt.Chart(table(rows)).mark_circle(color=ACCENT, size=80, opacity=0.9)
    if name == "par":
        layers.append(alt.Chart(table(rows)).mark_line(color=ACCENT, strokeWidth=1.2, opacity=0.6).encode(x=x, y=y))
    return Figure(name, title, note, look(alt.layer(*layers, dots.encode(x=x, y=y, tooltip=tips)), 300))


def _thirds(said: Figures) -> Figure | None:
    """Figure 3."""
    alt, rows = altair(), []
    names = {letter: name for letter, (name, _) in zip(said.letters, _key(said), strict=True)}
    for place, third in zip(THIRDS, said.figure3.thirds, strict=False):
        for letter, of in third.items():
            name = names.get(letter, letter)
            rows.append(
                {
                    "third": place,
                    "part": name,
                    "y": of.mean,
                    "low": max(0.0, of.mean - of.std),
                    "high": of.mean + of.std,
                }
            )
    if not rows:
        return None
    entries = _key(said)
    x = alt.X("third:N", sort=list(THIRDS), title=None, axis=alt.Axis(labelAngle=0))
    offset = alt.XOffset("part:N", sort=[name for name, _ in entries])
    tips = [
        alt.Tooltip("third:N", title="where"),
        alt.Tooltip("part:N", title="part"),
        alt.Tooltip("y:Q", title="mean", format=".2f"),
    ]
    base = alt.Chart(table(rows))
    bars = base.mark_bar(opacity=0.9).encode(
        x=x,
        xOffset=offset,
        y=alt.Y("y:Q", title="sublayers, mean over seeds"),
        color=by_name("part", entries),
        tooltip=tips,
    )
    spread = base.mark_rule(color=GREY, strokeWidth=1.5).encode(x=x, xOffset=offset, y=alt.Y("low:Q"), y2="high:Q")
    note = "How many of each part stand in each third of the network. Lines: ± one standard deviation."
    return Figure("thirds", "Where the parts stand", note, look(alt.layer(bars, spread), 260), entries)


def _key(said: Figures) -> list[tuple[str, str]]:
    """Name and colour of each letter that was searched over."""
    parts = {"-": ("identity", PALE), **{letter: part[:2] for letter, part in blocks.PARTS.items()}}
    return [parts.get(letter, (letter, blocks.OTHER[1])) for letter in said.letters]
