"""Loss curves: training and validation, over tokens and over wall time; the mean over seeds with a band."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from sublayer.reports.charts import Entry, Figure, Rows, altair, by_name, colours, look, table, thin
from sublayer.reports.history import History
from sublayer.reports.history import Line as Logged
from sublayer.reports.units import DIGITS, SCORE, Scale, scale, time

POINTS = 300
"""Points of a curve: more than a screen can resolve."""
KINDS = (("training", "loss"), ("validation", "valid_loss"))

Drawn = list[tuple[History, str]]


def figures(
    runs: Sequence[History], groups: Sequence[str] | None = None, key: Sequence[Entry] = (), over: str = ""
) -> list[Figure]:
    """Runs of one group share a colour, as in the key; `over="seeds"`: they are one curve, their mean, with a band."""
    names = list(groups or [run.name for run in runs])
    drawn = [(run, name) for run, name in zip(runs, names, strict=True) if run.train or run.valid]
    if not drawn:
        return []
    there = list(dict.fromkeys(name for _, name in drawn))
    known = {one.label: one for one in key}
    used = [known[name] for name in there] if all(name in known for name in there) else colours(there)
    made = [_figure(drawn, used, over, "tokens", "tokens read")]
    if any("seconds" in line for run, _ in drawn for line in run.train):
        made.append(_figure(drawn, used, over, "seconds", "wall time"))
    return made


def _figure(drawn: Drawn, key: Sequence[Entry], over: str, field: str, title: str) -> Figure:
    alt = altair()
    x = scale(field, [line[field] for run, _ in drawn for line in run.train + run.valid if field in line])
    if field == "seconds":
        x = time(max(run.seconds or 0.0 for run, _ in drawn))
    label = f"{title} ({x.unit})" if x.unit else title
    rows = [row for part in _groups(drawn, over) for row in _rows(part, field, x)]
    base = alt.Chart(table(rows)).encode(
        x=alt.X("x:Q", title=label), color=by_name("of", key), detail="run:N", tooltip=_tips(alt, label, over)
    )
    y = alt.Y("y:Q", title="loss (nats per token)", scale=alt.Scale(zero=False))
    training, validation = (base.transform_filter(f"datum.kind == '{kind}'") for kind, _ in KINDS)
    layers = [training.mark_line(strokeWidth=1.2, opacity=0.45).encode(y=y)]
    banded = any("low" in row for row in rows)
    if banded:
        only = validation.transform_filter("isValid(datum.low)")
        layers.append(only.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", scale=alt.Scale(zero=False)), y2="high:Q"))
    layers.append(validation.mark_line(strokeWidth=2, point={"size": 28}).encode(y=y))
    note = "Thin: on the training text. With dots: on the validation text."
    if banded:
        note += f" Each curve is the mean over {over}, its band the range of the validation loss."
    return Figure(f"loss-{field}", f"Loss over {title}", note, look(alt.layer(*layers)), key if len(key) > 1 else ())


def _tips(alt: Any, label: str, over: str) -> list[Any]:
    return [
        alt.Tooltip("run:N", title="variant" if over else "run"),
        alt.Tooltip("kind:N", title="loss on"),
        alt.Tooltip("x:Q", title=label, format=DIGITS),
        alt.Tooltip("y:Q", title="loss", format=SCORE),
        *([alt.Tooltip("seeds:Q", title=over)] if over else []),
    ]


def _groups(drawn: Drawn, over: str) -> Iterator[tuple[list[History], str, str]]:
    """What makes one curve: its runs, their group, its own name."""
    if not over:
        yield from (([run], name, run.name) for run, name in drawn)
        return
    for name in dict.fromkeys(name for _, name in drawn):
        yield [run for run, group in drawn if group == name], name, name


def _rows(part: tuple[list[History], str, str], field: str, x: Scale) -> Rows:
    runs, group, name = part
    rows: Rows = []
    for kind, value in KINDS:
        lines = [_by_step(run.train if kind == "training" else run.valid, field, value) for run in runs]
        steps = sorted(set.intersection(*(set(one) for one in lines)))
        found = [_point([one[step] for one in lines], x) for step in steps]
        rows += thin([{**point, "of": group, "run": name, "kind": kind} for point in found], POINTS)
    return rows


def _by_step(lines: list[Logged], field: str, value: str) -> dict[float, tuple[float, float]]:
    return {line["step"]: (line[field], line[value]) for line in lines if field in line}


def _point(pairs: list[tuple[float, float]], x: Scale) -> dict[str, Any]:
    """The mean over runs at one step; the range where there are several."""
    losses = [_six(loss) for _, loss in pairs]
    point: dict[str, Any] = {"x": x.shown(fmean(at for at, _ in pairs)), "y": _six(fmean(losses))}
    if len(pairs) > 1:
        point |= {"low": min(losses), "high": max(losses)}
    return {**point, "seeds": len(pairs)}


def _six(value: float) -> float:
    """To six digits, which is more than a screen shows."""
    return float(f"{value:.6g}")
