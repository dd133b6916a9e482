"""A ranking of proxies: which number, known before training, puts models in their true order."""

from __future__ import annotations

from collections.abc import Sequence

from sublayer.nas.proxies.records import ProxyRanking, RankedProxy, RankedSet
from sublayer.reports import curves
from sublayer.reports.charts import ACCENT, GREY, Figure, altair, look, table
from sublayer.reports.folders import KINDS, read_asked
from sublayer.reports.markup import Markup
from sublayer.reports.rows import height, labels, rows, vertical
from sublayer.reports.section import Column, Section, folded, heading
from sublayer.reports.section import table as html_table
from sublayer.reports.sections import runs as run_pieces
from sublayer.reports.sections.asked import again
from sublayer.reports.sections.source import Source
from sublayer.reports.units import DIGITS, SCORE, fact, scale, score
from sublayer.runs.wording import plural


def section(source: Source) -> Section:
    result, asked = KINDS["proxies"]
    runs = source.runs
    ranking = ProxyRanking.read(source.path / result)
    body: list[Markup | Figure] = []
    for one in ranking.sets:
        of = f"-{one.set}" if len(ranking.sets) > 1 else ""
        body += [heading(f"Models of {one.set}")] if of else []
        body += [piece for piece in (_bars(one, of), _table(one), _scatter(one, of), _cost(one, of)) if piece]
    if runs:
        body += [heading("Loss curves of the models"), *curves.figures(runs, ["model"] * len(runs))]
        body.append(folded(f"The {plural(len(runs), 'run')} behind it", run_pieces.overview(runs)))
    body += again("proxies", source.path, read_asked(source.path / asked))
    return Section("Proxies", str(source.path), " ".join(_headline(one) for one in ranking.sets), body)


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
        Column("seconds a model", ["—" if proxy.seconds is None else fact(proxy.seconds) for proxy in one.proxies]),
    ]
    return html_table(columns, f"How well each proxy ranks {plural(one.models, 'model')}; 1 is the true order")


def _bars(one: RankedSet, of: str) -> Figure | None:
    ranked = one.by_correlation
    if not ranked:
        return None
    alt = altair()
    made = rows([_title(proxy) for proxy in ranked])
    data = [
        {"name": row.name, "y": row.middle, "from": 0.0, "x": proxy.spearman, "low": proxy.low, "high": proxy.high}
        for proxy, row in zip(ranked, made, strict=True)
    ]
    how = alt.Scale(domain=[min(0.0, *_ends(ranked)), 1.0])
    x, y = alt.X("from:Q", title="rank correlation with quality (Spearman)", scale=how), vertical("y", made)
    tips = [alt.Tooltip("name:N", title="proxy")]
    tips += [
        alt.Tooltip(f"{name}:Q", title=title, format=SCORE)
        for name, title in (("x", "Spearman"), ("low", "low"), ("high", "high"))
    ]
    bars = alt.Chart(table(data)).mark_rule(color=ACCENT, opacity=0.85, strokeWidth=10)
    known = [row for row in data if row["low"] is not None and row["high"] is not None]
    spread = alt.Chart(table(known)).mark_rule(color=GREY, strokeWidth=2)
    layers = [labels(made), bars.encode(x=x, x2="x:Q", y=y, tooltip=tips)]
    layers.append(spread.encode(x=alt.X("low:Q", scale=how), x2="high:Q", y=y))
    note = "Bar: Spearman's correlation with the order after training. Line: its interval by bootstrap over models."
    return Figure(f"proxies{of}", "How well each proxy ranks the models", note, look(alt.layer(*layers), height(made)))


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
        f"Validation perplexity against {_title(best)}",
        known.label,
        "Each dot a trained model; the proxy was computed before training.",
    )


def _cost(one: RankedSet, of: str) -> Figure | None:
    if not one.points.latency:
        return None
    known = scale("latency", one.points.latency)
    pairs = zip(one.points.name, one.points.latency, one.points.ppl, strict=False)
    rows = [{"name": name, "x": known.shown(x), "y": y} for name, x, y in pairs if x is not None and y is not None]
    title = "Validation perplexity against latency"
    return _points(
        rows,
        f"perplexity-latency{of}",
        title,
        known.label,
        "Each dot a trained model.",
    )


def _points(rows: list[dict[str, object]], name: str, title: str, label: str, note: str) -> Figure | None:
    if not rows:
        return None
    alt = altair()
    tips = [
        alt.Tooltip("name:N", title="model"),
        alt.Tooltip("x:Q", title=label, format=DIGITS),
        alt.Tooltip("y:Q", title="validation perplexity", format=DIGITS),
    ]
    x = alt.X("x:Q", title=label, scale=alt.Scale(zero=False))
    y = alt.Y("y:Q", title="validation perplexity, less is better", scale=alt.Scale(zero=False))
    chart = alt.Chart(table(rows)).mark_circle(color=ACCENT, size=44, opacity=0.75).encode(x=x, y=y, tooltip=tips)
    return Figure(name, title, note, look(chart, 300))


def _title(proxy: RankedProxy) -> str:
    return scale(proxy.name.replace("total_params", "params"), []).title


def _ends(ranked: Sequence[RankedProxy]) -> list[float]:
    return [value for one in ranked for value in (one.spearman, one.low) if value is not None]


def _between(one: RankedProxy) -> str:
    return "—" if one.low is None or one.high is None else f"[{_two(one.low)}, {_two(one.high)}]"


def _two(value: float | None) -> str:
    return score(value, 2)


def _hundred(value: float | None) -> float | None:
    return None if value is None else 100 * value
