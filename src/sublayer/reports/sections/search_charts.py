"""Charts of a search besides its front: predictions against measurements, convergence, losses of trained models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from sublayer.nas.records import FrontModel, SearchResult
from sublayer.reports.charts import ACCENT, GREY, Figure, altair, axis, look, table
from sublayer.reports.pareto import PREDICTED, ParetoAxis
from sublayer.reports.sections.front import Candidate, disturbed, errors, scale_of
from sublayer.reports.units import DIGITS, SCORE, percent
from sublayer.runs.wording import plural


def predicted(front: SearchResult, models: Sequence[Candidate], name: str) -> Figure | None:
    """Predicted against measured, with the line on which they would be equal."""
    alt, known = altair(), scale_of(front, name)
    rows = [
        {
            "name": one.name,
            "spec": one.spec,
            "x": known.shown(one.of.measured_value(name)),
            "y": known.shown(one.of.values.get(name)),
            "low": known.shown(one.of.measured.low if name == "latency" and one.of.measured else None),
            "high": known.shown(one.of.measured.high if name == "latency" and one.of.measured else None),
        }
        for one in models
        if not disturbed(one.of, name) and percent(one.of.values.get(name), one.of.measured_value(name)) is not None
    ]
    if len(rows) < 2:
        return None
    ends = [value for row in rows for value in (row["x"], row["y"], row["low"], row["high"]) if value is not None]
    known_axis = axis(known, ends)
    diagonal = [{"x": end, "y": end} for end in (min(ends), max(ends))]
    title, how = known.title, known_axis["scale"]
    x = alt.X("x:Q", title=known.called("measured"), scale=how)
    y = alt.Y("y:Q", title=known.called("predicted"), scale=how)
    line = alt.Chart(table(diagonal)).mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y)
    tips = [alt.Tooltip("name:N", title="model"), alt.Tooltip("spec:N", title="spec")]
    tips += [alt.Tooltip(f"{at}:Q", title=kind, format=DIGITS) for at, kind in (("x", "measured"), ("y", "predicted"))]
    points = alt.Chart(table(rows)).mark_circle(color=ACCENT, size=64, opacity=0.9).encode(x=x, y=y, tooltip=tips)
    spread = (
        alt.Chart(table(rows))
        .mark_rule(color=ACCENT, opacity=0.6)
        .encode(x=alt.X("low:Q", scale=how), x2="high:Q", y=y)
    )
    off = median(abs(one) for one in errors(front, name))
    note = f"Dashed: equal. Off by {off:.1f} % in the median of {plural(len(rows), 'model')}."
    bars = [spread.transform_filter("isValid(datum.low) && isValid(datum.high)")] if name == "latency" else []
    return Figure(
        f"predicted-{name}", f"Predicted against measured {title}", note, look(alt.layer(line, *bars, points), 340)
    )


def hypervolume(front: SearchResult) -> Figure:
    alt = altair()
    rows = [
        {"x": at, "y": value}
        for at, value in enumerate(front.hypervolumes)
        if value is not None and math.isfinite(value)
    ]
    tips = [alt.Tooltip("x:Q", title="generation"), alt.Tooltip("y:Q", title="hypervolume", format=DIGITS)]
    x = alt.X("x:Q", title="generation", axis=alt.Axis(tickCount=min(6, len(rows) - 1), format="d"))
    y = alt.Y(
        "y:Q",
        title="hypervolume, as a share" if _shares(front) else "hypervolume",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(format=".3~g"),
    )
    chart = alt.Chart(table(rows)).mark_line(color=ACCENT, strokeWidth=2, point={"size": 24, "color": ACCENT})
    note = "Share of the box of objectives that the front dominates; a flat curve means that the search has converged."
    return Figure("hypervolume", "Hypervolume by generation", note, look(chart.encode(x=x, y=y, tooltip=tips), 220))


def _shares(front: SearchResult) -> bool:
    return all(value is None or 0 <= value <= 1 for value in front.hypervolumes)


def trained(models: Sequence[Candidate], objectives: Sequence[ParetoAxis]) -> Figure | None:
    """The validation loss of the models that were trained, against their cost."""
    against = next((one for one in objectives if one.name == "latency"), None) or next(
        (one for one in objectives if not one.maximize), objectives[0]
    )
    rows = [
        {"name": one.name, "spec": one.spec, "x": against.scale.shown(_best_known(one.of, against.name))}
        | {"y": one.best["valid_loss"]}
        for one in models
        if one.best and _best_known(one.of, against.name) is not None
    ]
    if len(rows) < 2:
        return None
    alt = altair()
    tips = [alt.Tooltip("name:N", title="model"), alt.Tooltip("spec:N", title="spec")]
    tips += [
        alt.Tooltip("x:Q", title=against.scale.label, format=DIGITS),
        alt.Tooltip("y:Q", title="validation loss", format=SCORE),
    ]
    x = alt.X("x:Q", **axis(against.scale, [row["x"] for row in rows]))
    y = alt.Y("y:Q", title="validation loss (nats per token)", scale=alt.Scale(zero=False))
    chart = alt.Chart(table(rows)).mark_circle(color=ACCENT, size=80, opacity=0.9).encode(x=x, y=y, tooltip=tips)
    known = "measured where it was, else predicted" if against.name in PREDICTED else "counted"
    note = f"The models of the front that were trained, one seed each; {against.scale.title} {known}."
    return Figure("trained", f"Validation loss against {against.scale.title}", note, look(chart, 300))


def _best_known(one: FrontModel, name: str) -> float | None:
    """Measured if it was, else predicted."""
    measured = one.measured_value(name)
    return one.values.get(name) if measured is None else measured
