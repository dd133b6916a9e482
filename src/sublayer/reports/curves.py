"""Loss curves: training and validation, over tokens and over wall time."""

from __future__ import annotations

from collections.abc import Sequence

from sublayer.reports.charts import Figure, Rows, altair, by_name, colours, look, table, thin
from sublayer.reports.history import History
from sublayer.reports.units import scale, time

POINTS = 300
"""Points of a curve: more than a screen can resolve."""


def figures(runs: Sequence[History], groups: Sequence[str] | None = None) -> list[Figure]:
    """Runs of one group, such as the seeds of a variant, share a colour."""
    names = list(groups or [run.name for run in runs])
    drawn = [(run, name) for run, name in zip(runs, names, strict=True) if run.train or run.valid]
    if not drawn:
        return []
    made = [_figure(drawn, "tokens", "tokens read")]
    if any("seconds" in line for run, _ in drawn for line in run.train):
        made.append(_figure(drawn, "seconds", "wall time"))
    return made


def _figure(drawn: list[tuple[History, str]], field: str, title: str) -> Figure:
    alt = altair()
    key = colours(list(dict.fromkeys(name for _, name in drawn)))
    x = scale(field, [line[field] for run, _ in drawn for line in run.train + run.valid if field in line])
    if field == "seconds":
        x = time(max(run.seconds or 0.0 for run, _ in drawn))
    label = f"{title} ({x.unit})" if x.unit else title
    rows: Rows = []
    for run, name in drawn:
        for kind, lines, value in (("training", run.train, "loss"), ("validation", run.valid, "valid_loss")):
            there = [
                {"x": x.shown(line[field]), "y": float(f"{line[value]:.6g}"), "of": name, "run": run.name, "kind": kind}
                for line in lines
                if field in line
            ]
            rows += thin(there, POINTS)
    base = alt.Chart(table(rows)).encode(
        x=alt.X("x:Q", title=label),
        y=alt.Y("y:Q", title="loss (nats per token)", scale=alt.Scale(zero=False)),
        color=by_name("of", key),
        detail="run:N",
        tooltip=[
            alt.Tooltip("run:N", title="run"),
            alt.Tooltip("kind:N", title="loss on"),
            alt.Tooltip("x:Q", title=label, format=",.4~f"),
            alt.Tooltip("y:Q", title="loss", format=".4f"),
        ],
    )
    train = base.transform_filter("datum.kind == 'training'").mark_line(strokeWidth=1.2, opacity=0.45)
    valid = base.transform_filter("datum.kind == 'validation'").mark_line(strokeWidth=2, point={"size": 28})
    note = "Thin: on the training text. With dots: on the validation text."
    return Figure(f"loss-{field}", f"Loss over {title}", note, look(train + valid), key if len(key) > 1 else ())
