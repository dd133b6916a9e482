"""What came out of claims that were run again, as cards tell it.

python docs/reproduced.py reproductions/feedback/random-walk …     keeps their results in docs/reproduced
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables import table

from sublayer.reproduction.wording import cells, orders
from sublayer.runs.wording import change, command, plural, seeds

KEPT = Path(__file__).parent / "reproduced"


def sections(paper: str) -> Iterator[str]:
    """Of a card; none where no claim of the paper was run."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((KEPT / paper).glob("*.json"))]
    if found:
        yield "## Claims, run again"
        yield (
            "Figures of the paper beside ours; ± is 95 % over seeds (Student's t). Which is before which is told by "
            "the differences between two of the same seed."
        )
    for told in found:
        yield from _claim(told)


def _claim(told: dict[str, Any]) -> Iterator[str]:
    yield f"### {told['claim'].partition('/')[2]}"
    yield f"{told['says']} ({told['source']})"
    changes = [change(key, value) for key, value in told["changes"].items()]
    again = command("reproduce", told["claim"], *changes, "--seeds", seeds(told["seeds"]))
    took = f"{plural(len(told['seeds']), 'seed')}, {told['minutes']:.0f} minutes of training in all"
    yield f"`{again}`: {told['scale']}. {took}, {told['device']['processor']}."
    settings = " ".join(change(key, value) for key, value in told["settings"].items())
    yield f"For all variants: `{settings}`."
    for finding in told["findings"]:
        titles = ("variant", f"paper, {finding['unit']}", f"here, {finding['unit']}", "by seed")
        yield f"{finding['title'].capitalize()}:"
        yield table(titles, cells(finding), numbers=[1, 2, 3])
        yield "\n".join(f"- {line}." for line in orders(finding))


def keep(folder: Path) -> Path:
    """A claim's result, with what it ran on."""
    told = json.loads((folder / "claim.json").read_text(encoding="utf-8"))
    device = json.loads((folder / "table.json").read_text(encoding="utf-8"))["device"]
    path = KEPT / f"{told['claim']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**told, "device": device}, indent=1) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(keep(Path(name)))
