"""A comparison: each variant's loss over its seeds, with its interval, beside what it costs."""

from __future__ import annotations

from collections.abc import Sequence

from sublayer.reports import curves, intervals
from sublayer.reports.charts import ACCENT, GREY, Figure, altair, axis, look
from sublayer.reports.charts import table as rows_of
from sublayer.reports.comparison import Difference, Interval, Row, Table
from sublayer.reports.folders import KINDS, Found, read, read_asked
from sublayer.reports.history import History
from sublayer.reports.markup import Markup
from sublayer.reports.section import Column, Section, facts, folded, heading, legend, model_cell, table
from sublayer.reports.sections import runs as run_pieces
from sublayer.reports.sections.asked import again
from sublayer.reports.units import Scale, scale
from sublayer.runs.wording import plural


def section(found: Found, runs: Sequence[History], tokens: int) -> Section:
    result, asked = KINDS["compare"]
    said = read(found.path / result, Table)
    body: list[Markup | Figure] = []
    if any(row.mean is not None for row in said.rows):
        body.append(_intervals(said))
    body += [legend(row.layout for row in said.rows), _table(said)]
    body += [figure for name in ("latency", "params", "tokens_per_second") if (figure := _against(said, name))][:2]
    if runs:
        groups = [_group(run, said) for run in runs]
        body += [heading("Loss curves"), *curves.figures(runs, groups)]
        body += run_pieces.samples(runs, tokens, groups) if tokens else []
        body.append(folded(f"The {plural(len(runs), 'run')} behind it", run_pieces.overview(runs)))
    if said.device:
        body.append(folded("Device", facts(said.device)))
    body += again("compare", found.path, read_asked(found.path / asked) or said.asked)
    body += run_pieces.repeats(runs[:1])
    models = [(row.name, row.layout, row.config) for row in said.rows]
    return Section("Comparison", str(found.path), _headline(said), body, models)


def _headline(said: Table) -> str:
    """Who is best, and whether that is settled."""
    ranked = [row for row in said.ranked if row.mean is not None]
    if not ranked:
        return f"{plural(len(said.rows), 'variant')}, none trained to its end yet."
    best, seeds = ranked[0], max((len(row.losses) for row in ranked), default=0)
    reached = _spread(best.mean, best.low, best.high)
    words = f"{best.name} has the lowest {said.title}: {reached}, {plural(seeds, 'seed')} each"
    if said.baseline is not None:
        return f"{words}.{_verdicts(said)}"
    rivals = [row.name for row in ranked[1:] if _overlap(best, row)]
    if rivals:
        return f"{words}. Its interval overlaps with {_enumerate(rivals)}: between these the order is not settled."
    return (
        f"{words}. Its interval overlaps with no other." if len(ranked) > 1 and best.high is not None else f"{words}."
    )


def _verdicts(said: Table) -> str:
    """What differences seed by seed say of each, against the first."""
    found: dict[str, list[str]] = {}
    for row in said.rows:
        if row.difference is not None and row.name != said.baseline:
            found.setdefault(row.difference.verdict, []).append(row.name)
    told = "; ".join(f"{_enumerate(names)} {verdict}" for verdict, names in found.items() if verdict)
    return f" Against {said.baseline}, seed by seed: {told}." if told else ""


def _table(said: Table) -> Markup:
    rows = said.ranked
    params, latency, memory = (
        scale(name, [row.figure(name) for row in rows]) for name in ("params", "latency", "memory")
    )
    tokens = scale("tokens", [row.figure("tokens") for row in rows])
    bits = [row.bits_per_byte or Interval() for row in rows]
    speed = [row.figure("tokens_per_second") for row in rows]
    columns = [
        Column("variant", [row.name for row in rows], number=False),
        Column("layout", [model_cell(row.layout, row.config) for row in rows], number=False),
        *_columns(params, rows, "params"),
        Column("seeds", [str(len(row.losses)) for row in rows]),
        Column(said.title, [_spread(row.mean, row.low, row.high) for row in rows]),
        Column(f"less {said.baseline}", [_change(row.difference) for row in rows]),
        Column("verdict", [row.difference.verdict if row.difference else "—" for row in rows], number=False),
        Column("bits per byte", [_spread(one.mean, one.low, one.high) for one in bits]),
        *_columns(latency, rows, "latency"),
        *_columns(memory, rows, "memory"),
        Column("tokens per second", ["—" if one is None else f"{one:,.0f}" for one in speed]),
        *_columns(tokens, rows, "tokens"),
    ]
    how = f" ({said.how})" if said.how else ""
    return table(columns, f"{plural(len(rows), 'variant')}, the best first; intervals in brackets{how}")


def _columns(known: Scale, rows: Sequence[Row], name: str) -> list[Column]:
    return [Column(known.label, [known.number(row.figure(name)) for row in rows])]


def _intervals(said: Table) -> Figure:
    lines = [
        intervals.Line(row.name, row.mean, row.low, row.high, row.losses, row.seeds, row.layout) for row in said.ranked
    ]
    title = f"{said.title[0].upper()}{said.title[1:]} by variant"
    return intervals.figure("intervals", title, f"{said.label}, less is better", lines, "loss")


def _against(said: Table, name: str) -> Figure | None:
    """Quality against what it costs."""
    rows = [row for row in said.rows if row.mean is not None and row.figure(name) is not None]
    known = scale(name, [row.figure(name) for row in rows])
    if len(rows) < 2 or len({row.figure(name) for row in rows}) < 2:
        return None
    alt = altair()
    points = [
        {
            "name": row.name,
            "layout": row.layout,
            "x": known.shown(row.figure(name)),
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
        x=x, y=alt.Y("mean:Q", title=f"{said.label}, less is better", scale=how), tooltip=tips
    )
    bars = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(color=ACCENT)
    words = base.mark_text(dy=-10, dx=6, align="left", color=GREY, fontSize=11, limit=110).encode(
        x=x, y=alt.Y("mean:Q"), text="name:N"
    )
    layers = alt.layer(
        bars.encode(x=x, y=alt.Y("low:Q", scale=how), y2="high:Q"), dots, *([words] if len(points) <= 12 else [])
    )
    title = f"{said.title} against {known.title}"
    return Figure(
        f"against-{name}".replace("_", "-"),
        title[0].upper() + title[1:],
        "Each dot a variant; bars: intervals of the mean.",
        look(layers, 320),
    )


def _group(run: History, said: Table) -> str:
    """The variant that a run belongs to; where the table does not say, runs are called NAME-SEED."""
    name = run.run.path.name
    for row in said.rows:
        if f"runs/{name}" in row.runs:
            return row.name
    return name.rpartition("-")[0] or name


def _overlap(best: Row, other: Row) -> bool:
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
