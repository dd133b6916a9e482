"""A ranking of proxies: which number, known before training, puts models in their true order."""

from __future__ import annotations

from collections.abc import Sequence

from sublayer.nas.proxies.records import ProxyRanking, RankedProxy, RankedSet
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
from sublayer.runs.wording import plural

LINE = 28


def section(found: Found, runs: Sequence[History], tokens: int) -> Section:
    result, asked = KINDS["proxies"]
    ranking = ProxyRanking.read(found.path / result)
    body: list[Markup | Figure] = []
    for one in ranking.sets:
        of = f"-{one.set}" if len(ranking.sets) > 1 else ""
        body += [heading(f"Models of {one.set}")] if of else []
        body += [piece for piece in (_bars(one, of), _table(one), _scatter(one, of), _cost(one, of)) if piece]
    if runs:
        body += [heading("Loss curves of the models"), *curves.figures(runs, ["model"] * len(runs))]
        body.append(folded(f"The {plural(len(runs), 'run')} behind it", run_pieces.overview(runs)))
    body += again("proxies", found.path, read_asked(found.path / asked))
    return Section("Proxies", str(found.path), " ".join(_headline(one) for one in ranking.sets), body)


def _headline(one: RankedSet) -> str:
    ranked = one.by_correlation
    if not ranked:
        return f"{plural(one.models, 'model')} of {one.set}: too few for an order."
    best, last = ranked[0], ranked[-1]
    words = (
        f"{_title(best)} ranks {plural(one.models, 'trained model')} ({one.set}) best: Spearman {_two(best.spearman)}"
    )
    if best.low is not None and best.high is not None:
        words += f" [{_two(best.low)}, {_two(best.high)}]"
        others = [_title(other) for other in ranked[1:] if other.high is not None and other.high >= best.low]
        words += f"; {plural(len(others), 'other')} may be as good" if others else ""
    return f"{words}; {_title(last)} ranks worst, {_two(last.spearman)}." if last is not best else f"{words}."


def _table(one: RankedSet) -> Markup:
    shares = list(dict.fromkeys(share for proxy in one.proxies for share in proxy.common or {}))
    common = [[(proxy.common or {}).get(share) for proxy in one.proxies] for share in shares]
    columns = [
        Column("proxy", [_title(proxy) for proxy in one.proxies], number=False),
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


def _bars(one: RankedSet, of: str) -> Figure | None:
    ranked = one.by_correlation
    if not ranked:
        return None
    alt = altair()
    rows = [{"name": _title(proxy), "x": proxy.spearman, "low": proxy.low, "high": proxy.high} for proxy in ranked]
    y = alt.Y(
        "name:N",
        sort=[row["name"] for row in rows],
        title=None,
        axis=alt.Axis(grid=False, domain=False, ticks=False, labelLimit=150),
    )
    x = alt.X(
        "x:Q", title="rank correlation with quality (Spearman)", scale=alt.Scale(domain=[min(0.0, *_ends(ranked)), 1.0])
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


def _scatter(one: RankedSet, of: str) -> Figure | None:
    """The score of the best proxy against the perplexity after training."""
    best = next((proxy for proxy in one.by_correlation if proxy.name in one.points.scores), None)
    if best is None:
        return None
    scores = one.points.scores[best.name]
    known = scale(best.name.replace("total_params", "params"), scores)
    pairs = zip(one.points.name, scores, one.points.ppl, strict=False)
    rows = [{"name": name, "x": known.shown(x), "y": y} for name, x, y in pairs if x is not None and y is not None]
    return _points(
        rows,
        f"best-proxy{of}",
        f"Perplexity against {_title(best)}",
        known.label,
        "Each dot a trained model; the proxy was computed before training.",
    )


def _cost(one: RankedSet, of: str) -> Figure | None:
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


def _title(proxy: RankedProxy) -> str:
    return scale(proxy.name.replace("total_params", "params"), []).title


def _ends(ranked: Sequence[RankedProxy]) -> list[float]:
    return [value for one in ranked for value in (one.spearman, one.low) if value is not None]


def _between(one: RankedProxy) -> str:
    return "—" if one.low is None or one.high is None else f"[{_two(one.low)}, {_two(one.high)}]"


def _two(value: float | None) -> str:
    return "—" if value is None else f"{value:.2f}".replace("-", "−")


def _hundred(value: float | None) -> float | None:
    return None if value is None else 100 * value
