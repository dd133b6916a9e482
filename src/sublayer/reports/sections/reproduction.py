"""A paper's claim that was run again: its figures beside ours, and the comparison behind it."""

from __future__ import annotations

from sublayer.reports import intervals
from sublayer.reports.charts import Figure
from sublayer.reports.folders import KINDS
from sublayer.reports.markup import Markup, tag
from sublayer.reports.section import Column, Section, command, heading, paragraph, table
from sublayer.reports.sections import compare
from sublayer.reports.sections.source import Source
from sublayer.reproduction.result import ClaimResult, FindingResult
from sublayer.runs.wording import change, plural, seeds


def section(source: Source) -> Section:
    result = ClaimResult.read(source.path / KINDS["reproduction"][0])
    behind = compare.section(source)
    body: list[Markup | Figure] = [paragraph(f"{result.says} ({result.source})"), paragraph(_scale(result))]
    for finding in result.findings:
        body += [heading(_heading(finding)), _drawn(finding, result), _table(finding)]
        body.append(tag("ul", (tag("li", pair.words) for pair in finding.pairs)))
    body += [
        command("sublayer", "reproduce", result.claim, *_changes(result), *_data(result), *_seeds(result)),
        heading("The comparison behind it"),
        *behind.body,
    ]
    return Section("Reproduction", f"{result.claim} {source.path}", _headline(result), body, behind.drawing)


def _headline(result: ClaimResult) -> str:
    """How many of the paper's findings were seen."""
    pairs = [pair for finding in result.findings for pair in finding.pairs]
    clearly, rather = (sum(pair.seen.startswith(word) for pair in pairs) for word in ("yes, clearly", "yes"))
    words = f"Of {plural(len(pairs), 'thing')} that the paper finds, {rather} came out the same way here"
    return f"{words}, {clearly} of them clearly ({plural(len(result.seeds), 'seed')} each)."


def _scale(result: ClaimResult) -> str:
    changed = ", ".join((*([result.data] if result.data else ()), *_changes(result)))
    also = f" Changed: {changed}." if changed else ""
    return f"Scaled down: {result.scale}. {plural(round(result.minutes), 'minute')} of training in all.{also}"


def _changes(result: ClaimResult) -> list[str]:
    return [change(key, value) for key, value in result.changes.items()]


def _data(result: ClaimResult) -> list[str]:
    return ["--data", result.data] if result.data else []


def _seeds(result: ClaimResult) -> list[str]:
    return ["--seeds", seeds(result.seeds)] if result.seeds else []


def _heading(finding: FindingResult) -> str:
    return f"{finding.title[:1].upper()}{finding.title[1:]}"


def _drawn(finding: FindingResult, result: ClaimResult) -> Figure:
    lines = []
    for row in finding.rows:
        mean, low, high = (row.ours.mean, row.ours.low, row.ours.high) if row.ours else (None, None, None)
        seeds = result.seeds if len(row.values) == len(result.seeds) else ()
        lines.append(intervals.Line(row.variant, mean, low, high, row.values, seeds, paper=row.paper))
    name = f"claim-{finding.figure}".replace(".", "-").replace("_", "-")
    label = f"{finding.unit}, {'less' if finding.less_is_better else 'more'} is better"
    return intervals.figure(name, f"{_heading(finding)} by variant", label, lines, finding.unit)


def _table(finding: FindingResult) -> Markup:
    titles = "variant", f"paper, {finding.unit}", f"here, {finding.unit}", "by seed"
    cells = zip(*finding.cells, strict=True)
    columns = [Column(title, found, number=title != "variant") for title, found in zip(titles, cells, strict=False)]
    return table(columns, "± is 95 % over seeds (Student's t)")
