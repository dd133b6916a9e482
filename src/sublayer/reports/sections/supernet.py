"""A supernet search, drawn as figures 2, 3 and 4 of Mandava et al. 2020."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sublayer.nas.supernet.records import BaseModels, SupernetFigures
from sublayer.reports import blocks
from sublayer.reports.charts import ACCENT, GREY, PALE, Entry, Figure, Rows, altair, by_name, look, table
from sublayer.reports.folders import KINDS, read_asked
from sublayer.reports.markup import Markup
from sublayer.reports.section import Column, Section, facts, folded, heading, key, model_cell, paragraph
from sublayer.reports.section import table as html_table
from sublayer.reports.sections import runs as run_pieces
from sublayer.reports.sections.asked import again
from sublayer.reports.sections.source import Source
from sublayer.reports.units import DIGITS, score
from sublayer.runs.wording import plural

THIRDS = ("first third", "second third", "last third")


def section(source: Source) -> Section:
    result, asked = KINDS["supernet"]
    figures = SupernetFigures.read(source.path / result)
    drawn = (_attention(figures), _thirds(figures), _par(figures))
    body: list[Markup | Figure] = [piece for piece in drawn if piece]
    body += [heading("Models found"), key(_key(figures)), _table(figures)]
    body += [paragraph(f"{name} diverged: {why}") for name, why in figures.diverged.items()]
    if source.runs:
        groups = [run.run.path.name.rpartition("-")[0] for run in source.runs]
        body += [heading("Trained from scratch"), *run_pieces.pieces(source.runs, source.tokens, groups)]
    environment = read_asked(source.path / "environment.json")
    body += [folded("Device", facts(environment))] if environment else []
    body += again("supernet", source.path, read_asked(source.path / asked))
    models = [(f"seed {one.seed}", one.layout, None) for one in figures.figure2.points if one.layout]
    return Section("Supernet", str(source.path), _headline(figures), body, models)


def _headline(figures: SupernetFigures) -> str:
    points = figures.figure2.points
    if not points:
        return "No seed has finished yet."
    counts = [one.attention for one in points]
    few, most = min(counts), max(counts)
    many = plural(few, "attention") if few == most else f"{few} to {most} attentions"
    words = f"Searched over {plural(figures.places, 'slot')}, {plural(len(points), 'seed')} chose {many}"
    if figures.base and figures.base.attention is not None:
        words += f", where the base has {figures.base.attention}"
    if figures.found and figures.base and figures.base.mean is not None:
        best = min(figures.found, key=lambda one: one.perplexity or 0.0)
        base = f"{figures.base.mean:.4g} ± {figures.base.std:.2g}"
        words += f". The best found reaches a validation perplexity of {best.perplexity:.4g}, the base {base}"
    last = figures.figure3.thirds[-1] if len(figures.figure3.thirds) == 3 else {}
    if "s" in last:
        words += f". On average {last['s'].mean:.2g} of the attentions are in the last third"
    return words + "."


def _table(figures: SupernetFigures) -> Markup:
    rows: list[tuple[str, str, str, int | None, float | None]] = []
    if figures.base:
        rows.append(("base", figures.base.layout, "", figures.base.attention, figures.base.mean))
    rows += [
        (f"searched, seed {one.seed}", one.layout or "", one.word, one.attention, one.perplexity)
        for one in figures.figure2.points
    ]
    rows += [(f"PAR({one.p:g})", one.layout or "", "", one.attention, one.perplexity) for one in figures.figure4.points]
    cells = [blocks.word(word) if word else "" for _, _, word, _, _ in rows]
    columns = [
        Column("model", [row[0] for row in rows], number=False),
        Column("layout", [model_cell(row[1], None) if row[1] else "" for row in rows], number=False),
        Column("slots", cells, number=False),
        Column("attentions", ["—" if row[3] is None else str(row[3]) for row in rows]),
        Column("validation perplexity", [score(row[4], 2) for row in rows]),
    ]
    return html_table(columns, "The base, what each seed found (pale: identity), and PAR's rule")


def _attention(figures: SupernetFigures) -> Figure | None:
    """Figure 2."""
    rows: Rows = [
        {"x": one.attention, "y": one.perplexity, "name": f"seed {one.seed}", "layout": one.layout}
        for one in figures.found
    ]
    if not rows:
        return None
    xs = [row["x"] for row in rows] + (
        [figures.base.attention] if figures.base and figures.base.attention is not None else []
    )
    note = "Dots: models found, trained from scratch. Band: the base, mean ± standard deviation over seeds."
    return _banded(
        "attention",
        "Validation perplexity against the number of attentions",
        note,
        rows,
        "attention sublayers",
        figures.base,
        xs,
    )


def _par(figures: SupernetFigures) -> Figure | None:
    """Figure 4."""
    rows: Rows = [
        {"x": one.p, "y": one.perplexity, "name": f"PAR({one.p:g})", "layout": one.layout}
        for one in figures.figure4.points
        if one.perplexity is not None
    ]
    if not rows:
        return None
    note = "A coefficient of p leaves one attention in p sublayers. Band: the base, mean ± standard deviation."
    return _banded(
        "par",
        "Validation perplexity against the PAR coefficient",
        note,
        rows,
        "PAR coefficient p",
        figures.base,
        [row["x"] for row in rows],
    )


def _banded(
    name: str, title: str, note: str, rows: Rows, label: str, base: BaseModels | None, xs: Sequence[Any]
) -> Figure:
    alt = altair()
    x = alt.X(
        "x:Q",
        title=label,
        scale=alt.Scale(zero=False, domain=[min(xs) - 0.5, max(xs) + 0.5], nice=False),
        axis=alt.Axis(tickMinStep=1),
    )
    y = alt.Y("y:Q", title="validation perplexity, less is better", scale=alt.Scale(zero=False))
    tips = [alt.Tooltip("name:N", title="model"), alt.Tooltip("layout:N", title="layout")]
    tips += [alt.Tooltip("x:Q", title=label), alt.Tooltip("y:Q", title="validation perplexity", format=DIGITS)]
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


def _thirds(figures: SupernetFigures) -> Figure | None:
    """Figure 3."""
    alt, rows = altair(), []
    names = {letter: one.label for letter, one in zip(figures.letters, _key(figures), strict=True)}
    for where, third in zip(THIRDS, figures.figure3.thirds, strict=False):
        for letter, of in third.items():
            if of.mean is None:
                continue
            name = names.get(letter, letter)
            rows.append(
                {
                    "third": where,
                    "part": name,
                    "y": of.mean,
                    "low": max(0.0, of.mean - (of.std or 0.0)),
                    "high": of.mean + (of.std or 0.0),
                }
            )
    if not rows:
        return None
    entries = _key(figures)
    x = alt.X("third:N", sort=list(THIRDS), title=None, axis=alt.Axis(labelAngle=0))
    offset = alt.XOffset("part:N", sort=[one.label for one in entries])
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
    note = "Number of each part in each third of the network. Lines: ± one standard deviation."
    return Figure("thirds", "Where the parts are", note, look(alt.layer(bars, spread), 260), entries)


def _key(figures: SupernetFigures) -> list[Entry]:
    """Name and colour of each letter that was searched over."""
    parts = {"-": ("identity", PALE), **{letter: part[:2] for letter, part in blocks.PARTS.items()}}
    return [Entry(*parts.get(letter, (letter, blocks.OTHER[1]))) for letter in figures.letters]
