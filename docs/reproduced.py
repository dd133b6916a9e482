"""Results of claims that were run again, as sections of a paper's card.

python docs/reproduced.py reproductions/feedback/random-walk …     copies their results into docs/reproduced
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tables import table

from sublayer.comparison import ComparisonTable
from sublayer.reproduction import ClaimResult
from sublayer.runs.wording import change, command, plural, seeds

RESULTS = Path(__file__).parent / "reproduced"


class PublishedClaim(ClaimResult):
    """claim.json with the machine that it ran on."""

    device: dict[str, Any]


@cache
def published() -> list[PublishedClaim]:
    return [PublishedClaim.read(path) for path in sorted(RESULTS.rglob("*.json"))]


def about(paper: str) -> list[PublishedClaim]:
    """The claims of a paper, and those about several papers, that were run."""
    return [one for one in published() if paper in (one.claim.partition("/")[0], *one.papers)]


def sections(paper: str) -> Iterator[str]:
    """Of a paper's card; none where no claim about the paper was run."""
    results = about(paper)
    if results:
        yield "## Claims, run again"
        yield (
            "Figures of the paper beside ours; ± is 95 % over seeds (Student's t). Whether one variant is better than "
            "another is decided by their differences on the same seeds."
        )
    for result in results:
        yield from _claim(result)


def _claim(result: PublishedClaim) -> Iterator[str]:
    yield f"### {result.claim.partition('/')[2]}"
    yield f"{result.says} ({result.source})"
    changes = [change(key, value) for key, value in result.changes.items()]
    data = ("--data", result.data) if result.data else ()
    again = command("reproduce", result.claim, *changes, *data, "--seeds", seeds(result.seeds))
    took = f"{plural(len(result.seeds), 'seed')}, {result.minutes:.0f} minutes of training in all"
    yield f"`{again}`: {result.scale}. {took}, {result.device['processor']}."
    settings = " ".join(change(key, value) for key, value in result.settings.items())
    yield f"For all variants: `{settings}`."
    for finding in result.findings:
        titles = ("variant", f"paper, {finding.unit}", f"here, {finding.unit}", "by seed")
        yield f"{finding.title.capitalize()}:"
        yield table(titles, finding.cells, numbers=[1, 2, 3])
        yield "\n".join(f"- {pair.words}." for pair in finding.pairs)


def publish(folder: Path) -> Path:
    """Copy a claim's result, with the machine that it ran on; of other data its name, and not where it lay."""
    result = ClaimResult.read(folder / "claim.json")
    device = ComparisonTable.read(folder / "table.json").device
    own = {"device": device, "data": Path(result.data).name}
    published = PublishedClaim.model_validate({**result.dump(), **own})
    path = RESULTS / f"{result.claim}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    published.write(path)
    return path


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(publish(Path(name)))
