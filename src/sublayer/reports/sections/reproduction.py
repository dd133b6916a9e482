"""A paper's claim that was run again: its figures beside ours, and the comparison behind it."""

from __future__ import annotations

from collections.abc import Sequence

from sublayer.reports import intervals
from sublayer.reports.charts import Figure
from sublayer.reports.comparison import Interval
from sublayer.reports.folders import KINDS, Found, Record, read
from sublayer.reports.history import History
from sublayer.reports.markup import Markup, tag
from sublayer.reports.section import Column, Section, command, heading, paragraph, table
from sublayer.reports.sections import compare
from sublayer.reproduction.wording import cells, orders
from sublayer.runs.wording import change, plural, seeds


class Row(Record):
    variant: str
    paper: float | None = None
    ours: Interval | None = None
    values: list[float | None] = []


class Pair(Record):
    better: str
    worse: str
    seen: str


class Alike(Record):
    one: str
    other: str
    seen: str


class Finding(Record):
    figure: str
    title: str
    unit: str = ""
    less_is_better: bool = False
    rows: list[Row]
    order: list[Pair] = []
    alike: list[Alike] = []

    @property
    def heading(self) -> str:
        return f"{self.title[:1].upper()}{self.title[1:]}"


class Claim(Record):
    """claim.json."""

    claim: str
    source: str = ""
    says: str = ""
    scale: str = ""
    changes: dict[str, object] = {}
    seeds: list[int] = []
    minutes: float = 0.0
    findings: list[Finding]


def section(found: Found, runs: Sequence[History], tokens: int) -> Section:
    said = read(found.path / KINDS["reproduction"][0], Claim)
    behind = compare.section(found, runs, tokens)
    body: list[Markup | Figure] = [paragraph(f"{said.says} ({said.source})"), paragraph(_scale(said))]
    for finding in said.findings:
        body += [heading(finding.heading), _drawn(finding, said), _table(finding)]
        body.append(tag("ul", (tag("li", line) for line in orders(finding.model_dump()))))
    body += [
        command("sublayer", "reproduce", said.claim, *_changes(said), *_seeds(said)),
        heading("The comparison behind it"),
        *behind.body,
    ]
    return Section("Reproduction", f"{said.claim} {found.path}", _headline(said), body, behind.drawing)


def _headline(said: Claim) -> str:
    """How much of what the paper finds was seen."""
    pairs = [pair for finding in said.findings for pair in (*finding.order, *finding.alike)]
    clearly, rather = (sum(pair.seen.startswith(word) for pair in pairs) for word in ("yes, clearly", "yes"))
    words = f"Of {plural(len(pairs), 'thing')} that the paper finds, {rather} came out the same way here"
    return f"{words}, {clearly} of them clearly ({plural(len(said.seeds), 'seed')} each)."


def _scale(said: Claim) -> str:
    changed = ", ".join(_changes(said))
    also = f" Changed: {changed}." if changed else ""
    return f"Scaled down: {said.scale}. {plural(round(said.minutes), 'minute')} of training in all.{also}"


def _changes(said: Claim) -> list[str]:
    return [change(key, value) for key, value in said.changes.items()]


def _seeds(said: Claim) -> list[str]:
    return ["--seeds", seeds(said.seeds)] if said.seeds else []


def _drawn(finding: Finding, said: Claim) -> Figure:
    lines = []
    for row in finding.rows:
        ours = row.ours or Interval()
        seeds = said.seeds if len(row.values) == len(said.seeds) else ()
        line = intervals.Line(row.variant, ours.mean, ours.low, ours.high, row.values, seeds, paper=row.paper)
        lines.append(line)
    name = f"claim-{finding.figure}".replace(".", "-").replace("_", "-")
    label = f"{finding.unit}, {'less' if finding.less_is_better else 'more'} is better"
    return intervals.figure(name, f"{finding.heading} by variant", label, lines, finding.unit)


def _table(finding: Finding) -> Markup:
    titles = "variant", f"paper, {finding.unit}", f"here, {finding.unit}", "by seed"
    told = zip(*cells(finding.model_dump()), strict=True)
    columns = [Column(title, found, number=title != "variant") for title, found in zip(titles, told, strict=False)]
    return table(columns, "± is 95 % over seeds (Student's t)")
