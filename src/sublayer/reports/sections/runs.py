"""Training runs: curves, a table, samples of text, and the commands that train them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sublayer.reports import curves
from sublayer.reports.charts import Figure
from sublayer.reports.history import History
from sublayer.reports.markup import Markup, tag
from sublayer.reports.section import (
    Column,
    Section,
    command,
    facts,
    folded,
    heading,
    legend,
    listing,
    model_cell,
    paragraph,
    table,
)
from sublayer.reports.sections.asked import data_words, train_words
from sublayer.reports.spec import specs
from sublayer.reports.units import scale, score, time
from sublayer.runs.wording import plural

BITS = {"valid_bits_per_byte": "bits per byte", "valid_bits_per_dim": "bits per dimension"}
SCORES = ("valid_loss", *BITS)
SAMPLED = 4
"""Of the best runs, how many write a sample."""


def section(folder: str, runs: Sequence[History], tokens: int) -> Section:
    """Runs that belong to no search and no comparison."""
    body = [*pieces(runs, tokens), *(repeats(runs))]
    return Section("Runs in" if len(runs) > 1 else "Run", folder, headline(runs), body, models(runs))


def headline(runs: Sequence[History]) -> str:
    scored = [run for run in runs if run.best]
    if not scored:
        return f"{plural(len(runs), 'run')}, none scored on a validation text yet."
    best = min(scored, key=lambda run: run.best["valid_loss"])
    words = f"{score(best.best['valid_loss'])} nats per token"
    for name, unit in BITS.items():
        if name in best.best:
            words = f"{score(best.best[name])} {unit} ({words})"
    tokens = scale("tokens", [best.best["tokens"]])
    of = f", the lowest validation loss of {plural(len(scored), 'run')}" if len(scored) > 1 else ""
    return f"{best.name} reached {words} on the validation text after {tokens.words(best.best['tokens'])} tokens{of}."


def pieces(runs: Sequence[History], tokens: int, groups: Sequence[str] | None = None) -> list[Markup | Figure]:
    """Table, curves and samples, for a section of any kind that has runs in it."""
    body: list[Markup | Figure] = []
    if runs:
        body += [
            legend(run.layout for run in runs),
            overview(runs),
            *curves.figures(runs, groups, over="seeds" if groups else ""),
        ]
        body += samples(runs, tokens, groups) if tokens else []
    return body


def overview(runs: Sequence[History]) -> Markup:
    params = scale("params", [run.params for run in runs])
    tokens = scale("tokens", [run.last.get("tokens") for run in runs])
    took = time(max((run.seconds or 0.0 for run in runs), default=0.0))
    lines = specs([run.model for run in runs])
    cells = [model_cell(run.layout, run.model, line) for run, line in zip(runs, lines, strict=True)]
    columns = [
        Column("run", [run.name for run in runs], number=False),
        Column("model", cells, number=False),
        Column(params.label, [params.number(run.params) for run in runs]),
        Column("steps", [f"{run.last.get('step', 0):,.0f}" for run in runs]),
        Column(tokens.label, [tokens.number(run.last.get("tokens")) for run in runs]),
        *(Column(scale(name, []).label, [score(run.best.get(name)) for run in runs]) for name in SCORES),
        Column(took.label, [took.number(run.seconds) for run in runs]),
    ]
    return table(columns, "The runs, each at its best score on the validation text")


def samples(runs: Sequence[History], tokens: int, groups: Sequence[str] | None = None) -> list[Markup]:
    """Samples from the best models, the best of each group; the reason where a model cannot write."""
    best: dict[str, History] = {}
    for run, group in zip(runs, groups or [run.name for run in runs], strict=True):
        if run.best and (group not in best or run.best["valid_loss"] < best[group].best["valid_loss"]):
            best[group] = run
    scored = sorted(best.values(), key=lambda run: run.best["valid_loss"])[:SAMPLED]
    made = [heading("Samples")] if scored else []
    for run in scored:
        try:
            written = tag("pre", run.sample(tokens), class_="sample")
        except Exception as error:  # whatever prevents a sample must not prevent the report
            why = (str(error).splitlines() or [type(error).__name__])[0]
            written = tag("p", f"No sample: {why}", class_="aside")
        made.append(tag("figure", tag("figcaption", run.name), written))
    return made


def repeats(runs: Sequence[History]) -> list[Markup]:
    """How to train them again, with what they were trained on; folded."""
    return [folded(f"{run.name}: device, config and command", *_again(run)) for run in runs]


def models(runs: Sequence[History]) -> list[tuple[str, str, dict[str, Any] | None]]:
    return [(run.name, run.layout, run.model) for run in runs if run.layout]


def _again(run: History) -> list[Markup]:
    pieces = [facts(run.environment)] if run.environment else []
    pieces.append(paragraph("With the model below saved as model.json:"))
    pieces.append(
        command(
            "sublayer", "train", "model.json", *data_words(run.asked), *train_words(run.asked), "--out", "runs/again"
        )
    )
    return [*pieces, listing(run.model)]
