"""A comparison: each variant's loss over its seeds, with its interval, beside what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sublayer.comparison.records import ComparisonRow, ComparisonTable, Difference, HeldOutIntervals, Latency
from sublayer.reports import curves, intervals
from sublayer.reports.charts import Entry, Figure, altair, axis, by_name, colours, look, shape_by_name
from sublayer.reports.charts import table as rows_of
from sublayer.reports.folders import KINDS, read_asked
from sublayer.reports.history import History
from sublayer.reports.markup import Markup
from sublayer.reports.section import Column, Section, facts, folded, heading, legend, model_cell, table
from sublayer.reports.sections import runs as run_pieces
from sublayer.reports.sections.asked import again
from sublayer.reports.sections.source import Source
from sublayer.reports.spec import specs
from sublayer.reports.units import DIGITS, SCORE, Interval, amount, scale, spreads
from sublayer.runs.wording import plural

COSTS = ("latency", "params", "tokens_per_second")
"""What quality is drawn against; the first two that differ between variants."""

COLUMNS = ("latency", "memory", "step_memory", "tokens_per_second")
"""Of the table."""


def section(source: Source) -> Section:
    result, asked = KINDS["compare"]
    compared, runs = ComparisonTable.read(source.path / result), source.runs
    variants = colours([row.name for row in compared.rows])
    body: list[Markup | Figure] = []
    if any(row.mean is not None for row in compared.rows):
        body.append(_intervals(compared, variants))
    body += [figure for name in COSTS if (figure := _against(compared, name, variants))][:2]
    body += [legend(row.layout for row in compared.rows), _table(compared)]
    if runs:
        groups = [_group(run, compared) for run in runs]
        body += [heading("Loss curves"), *curves.figures(runs, groups, variants, over="seeds")]
        body += run_pieces.samples(runs, source.tokens, groups) if source.tokens else []
        body.append(folded(f"The {plural(len(runs), 'run')} behind it", run_pieces.overview(runs)))
    if compared.device:
        body.append(folded("Device", facts(compared.device)))
    body += again("compare", source.path, read_asked(source.path / asked) or compared.asked)
    body += run_pieces.repeats(runs[:1])
    models = [(row.name, row.layout, row.config) for row in compared.rows]
    return Section("Comparison", str(source.path), _headline(compared), body, models)


def _headline(compared: ComparisonTable) -> str:
    """Which variant is best, and whether that is certain."""
    ranked = [row for row in compared.ranked if row.mean is not None]
    if not ranked:
        return f"{plural(len(compared.rows), 'variant')}, none trained to its end yet."
    best, seeds = ranked[0], max((len(row.losses) for row in ranked), default=0)
    (reached,) = spreads([best])
    words = f"{best.name} has the lowest {_title(compared)}: {reached} {scale(compared.metric, []).unit}".rstrip()
    words += f", {plural(seeds, 'seed')} each"
    if compared.baseline is not None:
        return f"{words}.{_verdicts(compared)}"
    others = [row.name for row in ranked[1:] if _overlap(best, row)]
    if others:
        return f"{words}. Its interval overlaps with {_enumerate(others)}: between these the order is not settled."
    return (
        f"{words}. Its interval overlaps with no other." if len(ranked) > 1 and best.high is not None else f"{words}."
    )


def _verdicts(compared: ComparisonTable) -> str:
    """The verdict on each variant against the first, by differences seed by seed."""
    found: dict[str, list[str]] = {}
    for row in compared.rows:
        if row.difference is not None and row.name != compared.baseline:
            found.setdefault(row.difference.verdict, []).append(row.name)
    verdicts = "; ".join(f"{_enumerate(names)} {verdict}" for verdict, names in found.items() if verdict)
    return f" Against {compared.baseline}, seed by seed: {verdicts}." if verdicts else ""


def _table(compared: ComparisonTable) -> Markup:
    rows = compared.ranked
    lines = specs([row.config for row in rows])
    costs = [scale(name, [_figure(row, name) for row in rows]) for name in COLUMNS]
    params, tokens = (scale(name, [_figure(row, name) for row in rows]) for name in ("params", "tokens"))
    cells = [model_cell(row.layout, row.config, line) for row, line in zip(rows, lines, strict=True)]
    alike = [
        Column("seeds", [str(len(row.losses)) for row in rows]),
        Column(tokens.called("of training"), [tokens.number(row.tokens) for row in rows]),
    ]
    columns = [
        Column("variant", [row.name for row in rows], number=False),
        Column("model", cells, number=False),
        Column(params.label, [params.number(row.params) for row in rows]),
        Column(_label(compared), spreads(rows)),
        Column("difference to the first", spreads([_known(row.difference) for row in rows], sign=True)),
        Column("verdict", [row.difference.verdict if row.difference else "—" for row in rows], number=False),
        *_scores(rows),
        *(Column(one.called(_how(one.name)), [one.number(_figure(row, one.name)) for row in rows]) for one in costs),
        *(one for one in alike if len(set(one.cells)) > 1),
    ]
    return table(columns, _caption(compared))


def _caption(compared: ComparisonTable) -> str:
    """What the columns mean, and what all variants have in common."""
    seeds, tokens = {len(row.losses) for row in compared.rows}, {row.tokens for row in compared.rows}
    shared = [plural(count, "seed") for count in seeds if len(seeds) == 1]
    shared += [f"{amount('tokens', count)} tokens of training" for count in tokens if len(tokens) == 1 and count]
    words = f"{plural(len(compared.rows), 'variant')}, the best first; ± and brackets: 95 % over seeds"
    if compared.baseline is not None:
        words += f"; difference: the {_title(compared)} less that of {compared.baseline}, below 0 is better"
    words += f". Each has {' and '.join(shared)}" if shared else ""
    return f"{words}. {compared.how[:1].upper()}{compared.how[1:]}." if compared.how else f"{words}."


def _scores(rows: Sequence[ComparisonRow]) -> list[Column]:
    """Further scores, each named with its split; those that nobody has are left out with their column."""
    test = [row.test or HeldOutIntervals() for row in rows]
    found: list[tuple[str, Sequence[Interval | None]]] = [
        ("validation bits per byte", [row.bits_per_byte for row in rows]),
        ("validation bits per dimension", [row.bits_per_dim for row in rows]),
        ("validation accuracy", [row.accuracy for row in rows]),
        ("test bits per byte", [one.bits_per_byte for one in test]),
        ("test bits per dimension", [one.bits_per_dim for one in test]),
        ("test perplexity", [one.perplexity for one in test]),
        ("test accuracy", [one.accuracy for one in test]),
        ("test accuracy of whole sequences", [one.sequence_accuracy for one in test]),
    ]
    return [Column(title, spreads(column)) for title, column in found]


def _how(name: str) -> str:
    return "measured" if name in ("latency", "memory", "step_memory") else ""


def _known(difference: Difference | None) -> Difference | None:
    return difference if difference is not None and difference.mean is not None else None


def _intervals(compared: ComparisonTable, variants: Sequence[Entry]) -> Figure:
    rows = compared.ranked
    colour = {one.label: one.colour for one in variants}
    lines = [
        intervals.Line(row.name, row.mean, row.low, row.high, row.losses, row.seeds, line, colour=colour[row.name])
        for row, line in zip(rows, specs([row.config for row in rows]), strict=True)
    ]
    title = f"{_title(compared)[0].upper()}{_title(compared)[1:]} by variant"
    return intervals.figure("intervals", title, f"{_label(compared)}, less is better", lines, _title(compared))


def _against(compared: ComparisonTable, name: str, variants: Sequence[Entry]) -> Figure | None:
    """Quality against what it costs."""
    rows = [row for row in compared.rows if row.mean is not None and _figure(row, name) is not None]
    known = scale(name, [_figure(row, name) for row in rows])
    if len(rows) < 2 or len({_figure(row, name) for row in rows}) < 2:
        return None
    alt = altair()
    points = [
        {"name": row.name, "spec": line, "x": known.shown(_figure(row, name))}
        | {"mean": row.mean, "low": row.low, "high": row.high}
        for row, line in zip(rows, specs([row.config for row in rows]), strict=True)
    ]
    how = alt.Scale(zero=False, nice=True, padding=16)
    label = known.called(_how(name))
    x = alt.X("x:Q", **{**axis(known, [row["x"] for row in points], padding=24), "title": label})
    tips = [alt.Tooltip("name:N", title="variant"), alt.Tooltip("spec:N", title="model")]
    tips += [alt.Tooltip("x:Q", title=label, format=DIGITS)]
    seen = any(row["low"] is not None for row in points)
    tips += [alt.Tooltip(f"{end}:Q", title=end, format=SCORE) for end in ("mean", *(("low", "high") if seen else ()))]
    base, colour = alt.Chart(rows_of(points)), by_name("name", variants)
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=x,
        y=alt.Y("mean:Q", title=f"{_label(compared)}, less is better", scale=how),
        color=colour,
        shape=shape_by_name("name", variants),
        tooltip=tips,
    )
    bars = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(strokeWidth=1.5)
    layers = alt.layer(bars.encode(x=x, y=alt.Y("low:Q", scale=how), y2="high:Q", color=colour), dots)
    title = f"{_title(compared)} against {known.title}"
    return Figure(
        f"against-{name}".replace("_", "-"),
        title[0].upper() + title[1:],
        f"Each mark a variant{'; bars: 95 % intervals of the mean over seeds' if seen else ''}.",
        look(layers, 320),
        [one for one in variants if one.label in {row.name for row in rows}],
    )


def _group(run: History, compared: ComparisonTable) -> str:
    """The variant that a run belongs to; runs that the table does not list are named NAME-SEED."""
    name = run.run.path.name
    for row in compared.rows:
        if f"runs/{name}" in row.runs:
            return row.name
    return name.rpartition("-")[0] or name


def _title(compared: ComparisonTable) -> str:
    return scale(compared.metric, []).title


def _label(compared: ComparisonTable) -> str:
    """With its unit, for an axis."""
    return scale(compared.metric, []).label


def _figure(row: ComparisonRow, name: str) -> float | None:
    """A finite number, or None."""
    value = getattr(row, name)
    value = value.latency if isinstance(value, Latency) else value
    return value if value is not None and math.isfinite(value) else None


def _overlap(best: ComparisonRow, other: ComparisonRow) -> bool:
    return best.high is not None and other.low is not None and other.low <= best.high


def _enumerate(names: Sequence[str]) -> str:
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} others"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
