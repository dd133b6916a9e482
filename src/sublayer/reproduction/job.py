"""`reproduce`: run the comparison of a claim, and set the paper's findings beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sublayer import executors
from sublayer.comparison import ComparisonRow, compare
from sublayer.comparison.interval import Interval, SeedInterval, verdict
from sublayer.comparison.job import OnPhase, OnStart
from sublayer.reproduction.claim import Claim, Finding, find
from sublayer.reproduction.result import ClaimResult, FindingResult, FindingRow, Order, Tie

CLAIM = "claim.json"
UNKNOWN = "not known: there is no figure of one of them"


def reproduce(
    claim: str | Claim,
    out: str | Path = "",
    changes: Mapping[str, Any] | None = None,
    *,
    data: str = "",
    seeds: Sequence[int] = (0, 1, 2),
    pool: executors.Pool | None = None,
    on_start: OnStart = lambda request, folder: None,
    on_phase: OnPhase = lambda phase, done, total: None,
) -> ClaimResult:
    """Run a paper's claim again, or continue it; changes: to its sizes and its budget, for all variants.

    out: the folder; reproductions/PAPER/CLAIM if empty. data: what is trained on; the claim's own if empty.
    """
    asked, own = find(claim) if isinstance(claim, str) else claim, dict(changes or {})
    check(asked, own)
    settings = {**asked.changes, **own}
    folder = Path(out or f"reproductions/{asked.name}")
    table = compare(
        asked.variants,
        data or asked.data,
        folder,
        settings,
        seeds=seeds,
        lrs=asked.lrs,
        measure=asked.setting is not None,
        setting=asked.setting,
        pool=pool,
        on_start=on_start,
        on_phase=on_phase,
    )
    result = ClaimResult(
        claim=asked.name,
        source=asked.source,
        says=asked.says,
        scale=asked.scale,
        settings={key: _plain(value) for key, value in settings.items()},
        changes={key: _plain(value) for key, value in own.items()},
        data=data,
        seeds=list(seeds),
        minutes=sum(row.minutes for row in table.rows),
        findings=[found(finding, table.rows) for finding in asked.findings],
        params={row.name: row.params for row in table.rows if row.params is not None},
        papers=list(asked.papers),
    )
    result.write(folder / CLAIM)
    return result


def check(claim: Claim, changes: Mapping[str, Any]) -> None:
    """Refuse to change what the variants differ in."""
    for key, variant in ((key, variant) for key in changes for variant in claim.variants if key in variant.changes):
        raise ValueError(
            f"{key}: {claim.name} compares variants with values of their own ({variant.name}: {variant.changes[key]}); "
            "leave it, or use sublayer compare"
        )


def found(finding: Finding, rows: Sequence[ComparisonRow]) -> FindingResult:
    values = {row.name: picked(row, finding) for row in rows}
    less = finding.less_is_better
    return FindingResult(
        figure=finding.figure,
        title=finding.title,
        unit=finding.unit,
        less_is_better=less,
        rows=[
            FindingRow(
                variant=name,
                paper=finding.paper.get(name),
                ours=Interval.of([value for value in own if value is not None]),
                values=own,
            )
            for name, own in values.items()
        ],
        order=[Order(better=a, worse=b, seen=seen(values[a], values[b], less)) for a, b in finding.order],
        alike=[Tie(one=a, other=b, seen=seen_alike(values[a], values[b], less)) for a, b in finding.alike],
    )


def picked(row: ComparisonRow, finding: Finding) -> list[float | None]:
    """A figure by seed; a figure that exists once, such as latency, as a list of one."""
    value: Any = row
    for name in finding.figure.split("."):
        value = None if value is None else getattr(value, name)
    values = value.values if isinstance(value, SeedInterval) else [value]
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
    clear = {"better": "yes, clearly", "worse": "no, clearly not"}.get(verdict(difference))
    return clear or ("yes, within what seeds differ" if difference.mean < 0 else "no, within what seeds differ")


def seen_alike(one: Sequence[float | None], other: Sequence[float | None], less_is_better: bool) -> str:
    """Whether seeds leave open which of two is better."""
    difference = lost(one, other, less_is_better)
    if difference is None:
        return UNKNOWN
    if difference.low is None:
        return "not known: one seed cannot be told from chance"
    word = verdict(difference)
    return f"no, the first is clearly {word}" if word in ("better", "worse") else "yes, as far as seeds tell"


def lost(one: Sequence[float | None], other: Sequence[float | None], less_is_better: bool) -> Interval | None:
    """How much worse one is than the other, seed by seed."""
    pairs = [(a, b) for a, b in zip(one, other, strict=False) if a is not None and b is not None]
    return Interval.of([a - b if less_is_better else b - a for a, b in pairs])


def _plain(value: Any) -> Any:
    return value.dump() if hasattr(value, "dump") else value
