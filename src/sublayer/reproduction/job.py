"""From a claim's name to what the paper found and what was seen here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sublayer import executors
from sublayer.comparison import compare
from sublayer.comparison.interval import Interval, verdict
from sublayer.comparison.job import Told
from sublayer.measurement import measure
from sublayer.reproduction.claim import Claim, Finding, find
from sublayer.runs import sealed_json

CLAIM = "claim.json"
UNKNOWN = "not known: there is no figure of one of them"


def reproduce(
    claim: str | Claim,
    out: str | Path = "",
    changes: Mapping[str, Any] | None = None,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    pool: executors.Pool | None = None,
    told: Told = lambda request, folder: None,
) -> dict[str, Any]:
    """Run a paper's claim again, or go on with it; changes: to its sizes and its budget, for all variants."""
    asked, own = find(claim) if isinstance(claim, str) else claim, dict(changes or {})
    check(asked, own)
    settings = {**asked.changes, **own}
    place = Path(out or f"reproductions/{asked.name}")
    table = compare(
        asked.variants,
        asked.data,
        place,
        settings,
        seeds=seeds,
        lrs=asked.lrs,
        measure=measure if asked.setting else None,
        setting=asked.setting,
        pool=pool,
        told=told,
    )
    made = {
        "format": 1,
        "claim": asked.name,
        "source": asked.source,
        "says": asked.says,
        "scale": asked.scale,
        "settings": {key: _plain(value) for key, value in settings.items()},
        "changes": {key: _plain(value) for key, value in own.items()},
        "seeds": list(seeds),
        "minutes": sum(row["minutes"] for row in table["rows"]),
        "findings": [found(finding, table["rows"]) for finding in asked.findings],
        "params": {row["name"]: row["params"] for row in table["rows"]},
    }
    sealed_json.write(place / CLAIM, made)
    return made


def check(claim: Claim, changes: Mapping[str, Any]) -> None:
    """What variants differ in is the claim's."""
    for key, variant in ((key, variant) for key in changes for variant in claim.variants if key in variant.changes):
        raise ValueError(
            f"{key}: {claim.name} compares variants with values of their own ({variant.name}: {variant.changes[key]}); "
            "leave it, or use sublayer compare"
        )


def found(finding: Finding, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = {row["name"]: picked(row, finding) for row in rows}
    ours = {name: Interval.of([x for x in of if x is not None]) for name, of in values.items()}
    return {
        "figure": finding.figure,
        "title": finding.title,
        "unit": finding.unit,
        "less_is_better": finding.less_is_better,
        "rows": [
            {
                "variant": name,
                "paper": finding.paper.get(name),
                "ours": None if interval is None else interval.dump(),
                "values": values[name],
            }
            for name, interval in ours.items()
        ],
        "order": [
            {"better": a, "worse": b, "seen": seen(values[a], values[b], finding.less_is_better)}
            for a, b in finding.order
        ],
        "alike": [
            {"one": a, "other": b, "seen": seen_alike(values[a], values[b], finding.less_is_better)}
            for a, b in finding.alike
        ],
    }


def picked(row: Mapping[str, Any], finding: Finding) -> list[float | None]:
    """A figure by seed; one that is not by seed is a list of itself."""
    value: Any = row
    for key in finding.figure.split("."):
        value = None if value is None else value[key]
    values = value["values"] if isinstance(value, Mapping) else [value]
    return [None if one is None else finding.form(one) for one in values]


def seen(better: Sequence[float | None], worse: Sequence[float | None], less_is_better: bool) -> str:
    """Whether what the paper finds better is so, by differences seed by seed."""
    difference = lost(better, worse, less_is_better)
    if difference is None:
        return UNKNOWN
    if difference.mean == 0:
        return "no, they are alike here"
    if difference.low is None:
        return "yes" if difference.mean < 0 else "no"
    said = {"better": "yes, clearly", "worse": "no, clearly not"}.get(verdict(difference))
    return said or ("yes, within what seeds differ" if difference.mean < 0 else "no, within what seeds differ")


def seen_alike(one: Sequence[float | None], other: Sequence[float | None], less_is_better: bool) -> str:
    """Whether seeds leave open which of two is better."""
    difference = lost(one, other, less_is_better)
    if difference is None:
        return UNKNOWN
    if difference.low is None:
        return "not known: one seed tells no difference from chance"
    word = verdict(difference)
    return f"no, the first is clearly {word}" if word in ("better", "worse") else "yes, as far as seeds tell"


def lost(one: Sequence[float | None], other: Sequence[float | None], less_is_better: bool) -> Interval | None:
    """How much worse one is than the other, seed by seed."""
    pairs = [(a, b) for a, b in zip(one, other, strict=False) if a is not None and b is not None]
    return Interval.of([a - b if less_is_better else b - a for a, b in pairs])


def _plain(value: Any) -> Any:
    return value.dump() if hasattr(value, "dump") else value
