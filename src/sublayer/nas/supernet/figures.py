"""The data of figures 2, 3 and 4 of Mandava et al. 2020, for this search.

base is the band of figures 2 and 4. std is of a sample, 0 where there is one. Thirds are of the slots. A run that
diverged has no perplexity, and is in no mean.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean, stdev
from typing import Any

from sublayer.nas.supernet.records import (
    BaseModels,
    Figure2,
    Figure3,
    Figure4,
    FoundModel,
    LetterCounts,
    ParModel,
    SupernetFigures,
)
from sublayer.nn import layout as layouts
from sublayer.nn.stack import Stack


def figures(
    stack: Stack.Config, letters: str, results: Sequence[dict[str, Any]], scores: Sequence[dict[str, Any]]
) -> SupernetFigures:
    """`stack` is the base's; `results` has one item per seed, `scores` one per run."""
    attention = [letter for letter, part in stack.alphabet.items() if part.attends]
    of = {kind: [score for score in scores if score["kind"] == kind] for kind in ("searched", "base", "par")}
    found = {score["seed"]: score["perplexity"] for score in of["searched"]}
    return SupernetFigures(
        places=len(layouts.expand(stack.layout)),
        letters=letters,
        attention=attention,
        base=band(stack.layout, of["base"], attention) if of["base"] else None,
        diverged={score["name"]: score["diverged"] for score in scores if score.get("diverged")},
        figure2=Figure2(points=[point(result, found.get(result["seed"]), attention) for result in results]),
        figure3=Figure3(thirds=thirds([result["word"] for result in results], letters)),
        figure4=Figure4(points=[_par(score, attention) for score in sorted(of["par"], key=lambda score: score["p"])]),
    )


def band(layout: str, scores: Sequence[dict[str, Any]], attention: Collection[str]) -> BaseModels:
    perplexities = [score["perplexity"] for score in scores]
    return BaseModels(
        layout=layout,
        attention=count(layouts.expand(layout), attention),
        seeds=[score["seed"] for score in scores],
        perplexities=perplexities,
        **spread([one for one in perplexities if one is not None]),
    )


def point(result: dict[str, Any], perplexity: float | None, attention: Collection[str]) -> FoundModel:
    same = {name: result[name] for name in ("seed", "word", "layout")}
    return FoundModel(**same, attention=count(result["word"], attention), perplexity=perplexity)


def _par(score: dict[str, Any], attention: Collection[str]) -> ParModel:
    same = {name: score[name] for name in ("p", "layout", "perplexity")}
    return ParModel(**same, attention=count(layouts.expand(score["layout"]), attention))


def thirds(words: Sequence[str], letters: str) -> list[dict[str, LetterCounts]]:
    """How often each letter occurs in each third of the slots."""
    slices = [[third(word, n) for word in words] for n in range(3)]
    return [{letter: _counts(some, letter) for letter in letters} for some in slices]


def third(word: str, n: int) -> str:
    """The n-th third, from 0; where the length is not a multiple of 3, borders are rounded."""
    borders = [round(len(word) * k / 3) for k in range(4)]
    return word[borders[n] : borders[n + 1]]


def count(word: str, letters: Collection[str]) -> int:
    return sum(letter in letters for letter in word)


def spread(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"mean": None, "std": None}
    return {"mean": fmean(values), "std": stdev(values) if len(values) > 1 else 0.0}


def _counts(words: Sequence[str], letter: str) -> LetterCounts:
    counts = [word.count(letter) for word in words]
    return LetterCounts(**spread(counts), counts=counts)
