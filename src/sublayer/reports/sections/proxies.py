"""A ranking of proxies: which number, known before training, puts models in their true order."""

from __future__ import annotations

from collections.abc import Sequence

from sublayer.reports import curves
from sublayer.reports.charts import ACCENT, GREY, Figure, altair, look, table
from sublayer.reports.folders import KINDS, Found, read_asked
from sublayer.reports.history import History
from sublayer.reports.markup import Markup
from sublayer.reports.section import Column, Section, folded, heading
from sublayer.reports.section import table as html_table
from sublayer.reports.sections import runs as run_pieces
from sublayer.reports.sections.asked import again
from sublayer.reports.units import scale
from sublayer.runs.record import Record
from sublayer.runs.wording import plural

LINE = 28


class Judged(Record):
    name: str
    models: int = 0
    seconds: float | None = None
    spearman: float | None = None
    low: float | None = None
    high: float | None = None
    kendall: float | None = None
    common: dict[str, float | None] | None = None
    front_distance: float | None = None

    @property
    def words(self) -> str:
        return scale(self.name.replace("total_params", "params"), []).title


class Points(Record):
    name: list[str] = []
    ppl: list[float | None] = []
    latency: list[float | None] | None = None
    scores: dict[str, list[float | None]] = {}


class Ranked(Record):
    set: str
    models: int
    dropped: int = 0
    proxies: list[Judged]
    points: Points = Points()

    @property
    def judged(self) -> list[Judged]:
        """The best first."""
        return sorted((one for one in self.proxies if one.spearman is not None), key=lambda one: -(one.spearman or 0.0))


class Ranking(Record):
    """ranking.json."""

    sets: list[Ranked]


def section(found: Found, runs: Sequence[History], tokens: int) -> Section:
    result, asked = KINDS["proxies"]
    said = Ranking.read(found.path / result)
    body: list[Markup | Figure] = []
    for one in said.sets:
        of = f"-{one.set}" if len(said.sets) > 1 else ""
        body += [heading(f"Models of {one.set}")] if of else []
        body += [piece for piece in (_bars(one, of), _table(one), _scatter(one, of), _cost(one, of)) if piece]
    if runs:
        body += [heading("Loss curves of the models"), *curves.figures(runs, ["model"] * len(runs))]
        body.append(folded(f"The {plural(len(runs), 'run')} behind it", run_pieces.overview(runs)))
    body += again("proxies", found.path, read_asked(found.path / asked))
    return Section("Proxies", str(found.path), " ".join(_headline(one) for one in said.sets), body)


def _headline(one: Ranked) -> str:
    judged = one.judged
    if not judged:
        return f"{plural(one.models, 'model')} of {one.set}: too few for an order."
    best, last = judged[0], judged[-1]
    words = f"{best.words} ranks {plural(one.models, 'trained model')} ({one.set}) best: Spearman {_two(best.spearman)}"
    if best.low is not None and best.high is not None:
        words += f" [{_two(best.low)}, {_two(best.high)}]"
        rivals = [other.words for other in judged[1:] if other.high is not None and other.high >= best.low]
        words += f"; {plural(len(rivals), 'other')} may be as good" if rivals else ""
    return f"{words}; {last.words} ranks worst, {_two(last.spearman)}." if last is not best else f"{words}."


def _table(one: Ranked) -> Markup:
    shares = list(dict.fromkeys(share for proxy in one.proxies for share in proxy.common or {}))
    common = [[(proxy.common or {}).get(share) for proxy in one.proxies] for share in shares]
    columns = [
        Column("proxy", [proxy.words for proxy in one.proxies], number=False),
        Column("models", [f"{proxy.models:,}" for proxy in one.proxies]),
        Column("Spearman", [_two(proxy.spearman) for proxy in one.proxies]),
        Column("interval", [_between(proxy) for proxy in one.proxies]),
        Column("Kendall", [_two(proxy.kendall) for proxy in one.proxies]),
        *(
            Column(f"common in the best {share}", [_two(value) for value in values])
            for share, values in zip(shares, common, strict=True)
        ),
        Column("front off by (%)", [_two(_hundred(proxy.front_distance)) for proxy in one.proxies]),
        Column("seconds a model", ["—" if proxy.seconds is None else f"{proxy.seconds:.3g}" for proxy in one.proxies]),
    ]
    return html_table(columns, f"How well each proxy ranks {plural(one.models, 'model')}; 1 is the true order")


def _bars(one: Ranked, of: str) -> Figure | None:
    judged = one.judged
    if not judged:
        return None
    alt = altair()
    rows = [{"name": proxy.words, "x": proxy.spearman, "low": proxy.low, "high": proxy.high} for proxy in judged]
    y = alt.Y(
        "name:N",
        sort=[row["name"] for row in rows],
        title=None,
        axis=alt.Axis(grid=False, domain=False, ticks=False, labelLimit=150),
    )
    x = alt.X(
        "x:Q", title="rank correlation with quality (Spearman)", scale=alt.Scale(domain=[min(0.0, *_ends(judged)), 1.0])
    )
    tips = [
        alt.Tooltip("name:N", title="proxy"),
        *(
            alt.Tooltip(f"{name}:Q", title=title, format=".3f")
            for name, title in (("x", "Spearman"), ("low", "low"), ("high", "high"))
        ),
    ]
    bars = alt.Chart(table(rows)).mark_bar(color=ACCENT, opacity=0.85, height=12).encode(x=x, y=y, tooltip=tips)
    known = [row for row in rows if row["low"] is not None and row["high"] is not None]
    spread = alt.Chart(table(known)).mark_rule(color=GREY, strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q", y=y)
    note = "Bar: Spearman's correlation with the order after training. Line: its interval by bootstrap over models."
    return Figure(
        f"proxies{of}",
        "How well each proxy ranks the models",
        note,
        look(alt.layer(bars, spread), LINE * max(2, len(rows))),
    )


def _scatter(one: Ranked, of: str) -> Figure | None:
    """What the best proxy said against what came of it."""
    best = next((proxy for proxy in one.judged if proxy.name in one.points.scores), None)
    if best is None:
        return None
    scores = one.points.scores[best.name]
    known = scale(best.name.replace("total_params", "params"), scores)
    pairs = zip(one.points.name, scores, one.points.ppl, strict=False)
    rows = [{"name": name, "x": known.shown(x), "y": y} for name, x, y in pairs if x is not None and y is not None]
    return _points(
        rows,
        f"best-proxy{of}",
        f"Perplexity against {best.words}",
        known.label,
        "Each dot a trained model; the proxy knew it before.",
    )


def _cost(one: Ranked, of: str) -> Figure | None:
    if not one.points.latency:
        return None
    known = scale("latency", one.points.latency)
    pairs = zip(one.points.name, one.points.latency, one.points.ppl, strict=False)
    rows = [{"name": name, "x": known.shown(x), "y": y} for name, x, y in pairs if x is not None and y is not None]
    return _points(
        rows, f"perplexity-latency{of}", "Perplexity against latency", known.label, "Each dot a trained model."
    )


def _points(rows: list[dict[str, object]], name: str, title: str, label: str, note: str) -> Figure | None:
    if not rows:
        return None
    alt = altair()
    tips = [
        alt.Tooltip("name:N", title="model"),
        alt.Tooltip("x:Q", title=label, format=",.4~g"),
        alt.Tooltip("y:Q", title="perplexity", format=".4~f"),
    ]
    x = alt.X("x:Q", title=label, scale=alt.Scale(zero=False))
    y = alt.Y("y:Q", title="perplexity, less is better", scale=alt.Scale(zero=False))
    chart = alt.Chart(table(rows)).mark_circle(color=ACCENT, size=44, opacity=0.75).encode(x=x, y=y, tooltip=tips)
    return Figure(name, title, note, look(chart, 300))


def _ends(judged: Sequence[Judged]) -> list[float]:
    return [value for one in judged for value in (one.spearman, one.low) if value is not None]


def _between(one: Judged) -> str:
    return "—" if one.low is None or one.high is None else f"[{_two(one.low)}, {_two(one.high)}]"


def _two(value: float | None) -> str:
    return "—" if value is None else f"{value:.2f}".replace("-", "−")


def _hundred(value: float | None) -> float | None:
    return None if value is None else 100 * value
