"""A comparison: each variant's loss over its seeds, with its interval, beside what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sublayer.comparison.records import ComparisonRow, ComparisonTable, Difference, Latency
from sublayer.reports import curves, intervals
from sublayer.reports.charts import ACCENT, GREY, Figure, altair, axis, look
from sublayer.reports.charts import table as rows_of
from sublayer.reports.folders import KINDS, Found, read_asked
from sublayer.reports.history import History
from sublayer.reports.markup import Markup
from sublayer.reports.section import Column, Section, facts, folded, heading, legend, model_cell, table
from sublayer.reports.sections import runs as run_pieces
from sublayer.reports.sections.asked import again
from sublayer.reports.units import KNOWN, scale
from sublayer.runs.wording import plural


def section(found: Found, runs: Sequence[History], tokens: int) -> Section:
    result, asked = KINDS["compare"]
    compared = ComparisonTable.read(found.path / result)
    body: list[Markup | Figure] = []
    if any(row.mean is not None for row in compared.rows):
        body.append(_intervals(compared))
    body += [legend(row.layout for row in compared.rows), _table(compared)]
    body += [figure for name in ("latency", "params", "tokens_per_second") if (figure := _against(compared, name))][:2]
    if runs:
        groups = [_group(run, compared) for run in runs]
        body += [heading("Loss curves"), *curves.figures(runs, groups)]
        body += run_pieces.samples(runs, tokens, groups) if tokens else []
        body.append(folded(f"The {plural(len(runs), 'run')} behind it", run_pieces.overview(runs)))
    if compared.device:
        body.append(folded("Device", facts(compared.device)))
    body += again("compare", found.path, read_asked(found.path / asked) or compared.asked)
    body += run_pieces.repeats(runs[:1])
    models = [(row.name, row.layout, row.config) for row in compared.rows]
    return Section("Comparison", str(found.path), _headline(compared), body, models)


def _headline(compared: ComparisonTable) -> str:
    """Which variant is best, and whether that is certain."""
    ranked = [row for row in compared.ranked if row.mean is not None]
    if not ranked:
        return f"{plural(len(compared.rows), 'variant')}, none trained to its end yet."
    best, seeds = ranked[0], max((len(row.losses) for row in ranked), default=0)
    reached = _spread(best.mean, best.low, best.high)
    words = f"{best.name} has the lowest {_title(compared)}: {reached}, {plural(seeds, 'seed')} each"
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
    params, latency, memory = (
        scale(name, [_figure(row, name) for row in rows]) for name in ("params", "latency", "memory")
    )
    tokens = scale("tokens", [_figure(row, "tokens") for row in rows])
    bits = [row.bits_per_byte for row in rows]
    speed = [_figure(row, "tokens_per_second") for row in rows]
    columns = [
        Column("variant", [row.name for row in rows], number=False),
        Column("layout", [model_cell(row.layout, row.config) for row in rows], number=False),
        Column(params.label, [params.number(row.params) for row in rows]),
        Column("seeds", [str(len(row.losses)) for row in rows]),
        Column(_title(compared), [_spread(row.mean, row.low, row.high) for row in rows]),
        Column(f"less {compared.baseline}", [_change(row.difference) for row in rows]),
        Column("verdict", [row.difference.verdict if row.difference else "—" for row in rows], number=False),
        Column("bits per byte", ["—" if one is None else _spread(one.mean, one.low, one.high) for one in bits]),
        *(Column(one.label, [one.number(_figure(row, one.name)) for row in rows]) for one in (latency, memory)),
        Column("tokens per second", ["—" if one is None else f"{one:,.0f}" for one in speed]),
        Column(tokens.label, [tokens.number(row.tokens) for row in rows]),
    ]
    how = f" ({compared.how})" if compared.how else ""
    return table(columns, f"{plural(len(rows), 'variant')}, the best first; intervals in brackets{how}")


def _intervals(compared: ComparisonTable) -> Figure:
    lines = [
        intervals.Line(row.name, row.mean, row.low, row.high, row.losses, row.seeds, row.layout)
        for row in compared.ranked
    ]
    title = f"{_title(compared)[0].upper()}{_title(compared)[1:]} by variant"
    return intervals.figure("intervals", title, f"{_label(compared)}, less is better", lines, "loss")


def _against(compared: ComparisonTable, name: str) -> Figure | None:
    """Quality against what it costs."""
    rows = [row for row in compared.rows if row.mean is not None and _figure(row, name) is not None]
    known = scale(name, [_figure(row, name) for row in rows])
    if len(rows) < 2 or len({_figure(row, name) for row in rows}) < 2:
        return None
    alt = altair()
    points = [
        {
            "name": row.name,
            "layout": row.layout,
            "x": known.shown(_figure(row, name)),
            "mean": row.mean,
            "low": row.low,
            "high": row.high,
        }
        for row in rows
    ]
    how = alt.Scale(zero=False, nice=True, padding=16)
    x = alt.X("x:Q", **axis(known, [row["x"] for row in points], padding=24))
    tips = [
        alt.Tooltip("name:N", title="variant"),
        alt.Tooltip("layout:N", title="layout"),
        alt.Tooltip("x:Q", title=known.label, format=",.4~f"),
    ]
    tips += [alt.Tooltip(f"{name}:Q", title=name, format=".4f") for name in ("mean", "low", "high")]
    base = alt.Chart(rows_of(points))
    dots = base.mark_circle(size=80, color=ACCENT, opacity=1).encode(
        x=x, y=alt.Y("mean:Q", title=f"{_label(compared)}, less is better", scale=how), tooltip=tips
    )
    bars = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(color=ACCENT)
    words = base.mark_text(dy=-10, dx=6, align="left", color=GREY, fontSize=11, limit=110).encode(
        x=x, y=alt.Y("mean:Q"), text="name:N"
    )
    layers = alt.layer(
        bars.encode(x=x, y=alt.Y("low:Q", scale=how), y2="high:Q"), dots, *([words] if len(points) <= 12 else [])
    )
    title = f"{_title(compared)} against {known.title}"
    return Figure(
        f"against-{name}".replace("_", "-"),
        title[0].upper() + title[1:],
        "Each dot a variant; bars: intervals of the mean.",
        look(layers, 320),
    )


def _group(run: History, compared: ComparisonTable) -> str:
    """The variant that a run belongs to; runs that the table does not list are named NAME-SEED."""
    name = run.run.path.name
    for row in compared.rows:
        if f"runs/{name}" in row.runs:
            return row.name
    return name.rpartition("-")[0] or name


def _title(compared: ComparisonTable) -> str:
    return KNOWN.get(compared.metric, (compared.metric.replace("_", " "), ""))[0]


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


def _spread(mean: float | None, low: float | None, high: float | None) -> str:
    if mean is None:
        return "—"
    return f"{mean:.4f}" if low is None or high is None else f"{mean:.4f} [{low:.4f}, {high:.4f}]"


def _change(difference: Difference | None) -> str:
    if difference is None or difference.mean is None:
        return "—"
    ends = [end for end in (difference.low, difference.high) if end is not None]
    between = f" [{', '.join(f'{end:+.4f}' for end in ends)}]" if len(ends) == 2 else ""
    return f"{difference.mean:+.4f}{between}".replace("-", "−")


def _enumerate(names: Sequence[str]) -> str:
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} others"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
