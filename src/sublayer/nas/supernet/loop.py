"""The search of one seed, from its last checkpoint to its end."""

from __future__ import annotations

import logging
from typing import Any

import torch

from sublayer.data import DataConfig, Dataset, prepare
from sublayer.nas.supernet.folder import REQUEST, SupernetFolder
from sublayer.nas.supernet.reporters import SupernetReporter
from sublayer.nas.supernet.searcher import Searcher
from sublayer.nas.supernet.stack import IDENTITY, over
from sublayer.nn import layout as layouts
from sublayer.runs import Run, environment, sealed_json
from sublayer.runs.environment import differences
from sublayer.training import guard
from sublayer.training.budget import Stopwatch
from sublayer.training.distribution import World
from sublayer.training.loop import Recent

log = logging.getLogger("sublayer.nas")


def search_seed(folder: SupernetFolder, seed: int, data: Dataset, reporter: SupernetReporter) -> dict[str, Any]:
    """What the seed found; a search that has ended is not repeated."""
    if (result := folder.result(seed)) is not None:
        return result
    run, search, train = folder.seed(seed), folder.search, folder.train.but(seed=seed)
    world = World(train.device)
    with run.held():
        checkpoint = run.checkpoint()
        searcher = Searcher.make(over(folder.base, search.letters), search, train, data, world, checkpoint)
        run.metrics.cut(0 if checkpoint is None else checkpoint.notes["metrics"])
        run.clock.mend()
        reporter.begin(seed, searcher)
        run_steps(searcher, run, search.log_every, search.saves_every, reporter)
        result = describe(searcher, seed)
        sealed_json.write(run.path / "result.json", result)
    reporter.found(result)
    return result


def run_steps(searcher: Searcher, run: Run, log_every: int, save_every: int, reporter: SupernetReporter) -> None:
    watch, line = Stopwatch(run.seconds), {}
    recent = {role: Recent() for role in searcher.trainees}
    weights, saved = searcher.trainees["weights"], searcher.step
    while not searcher.over:
        role, losses, norm = searcher.take_step()
        recent[role].add(losses, norm)
        if weights.progress.first is None:
            weights.progress.first = float(losses["loss"])
        saves = searcher.over or searcher.step % save_every == 0
        if saves or searcher.step % log_every == 0:
            line = measured(searcher, recent)
            if "loss" in line:
                config = searcher.configs["weights"]
                guard.check(line["loss"], line["norm"], weights.progress, config, saved)
            run.metrics.add(line)
            run.add_time(searcher.step, watch.seconds)
        reporter.step(searcher, line)
        if saves:
            save(searcher, run)
            saved = searcher.step


def measured(searcher: Searcher, recent: dict[str, Recent]) -> dict[str, Any]:
    """A line of metrics; those of the architecture's steps have its name as a prefix."""
    line = {"step": searcher.step, "tuned": searcher.tuned, "temperature": searcher.plan.temperature(searcher.step)}
    for role, prefix in (("weights", ""), ("architecture", "architecture_")):
        if recent[role].losses:
            line |= {prefix + name: value for name, value in recent[role].means(searcher.world).items()}
    return {**line, "entropy": searcher.stack.entropy, "word": searcher.word}


def save(searcher: Searcher, run: Run) -> None:
    """Write a checkpoint, and remove the earlier ones."""
    notes, tensors = searcher.save()
    run.metrics.flush()
    run.save(searcher.step, {**notes, "metrics": run.metrics.size}, **tensors)
    for one in run.checkpoints[:-1]:
        one.remove()


def describe(searcher: Searcher, seed: int) -> dict[str, Any]:
    letters = searcher.word.replace(IDENTITY, "")
    probability_NC = searcher.stack.preference_NC.detach().double().softmax(1)
    return {
        "seed": seed,
        "word": searcher.word,
        "layout": layouts.spell(letters) if letters else None,
        "counts": {letter: searcher.word.count(letter) for letter in searcher.stack.choices},
        "steps": searcher.step,
        "tuned": searcher.tuned,
        "changed": searcher.changed,
        "settled": searcher.settled,
        "letters": searcher.stack.choices,
        "probabilities": [[round(p, 6) for p in row] for row in probability_NC.tolist()],
    }


def read_data(folder: SupernetFolder) -> Dataset:
    """The text that the search began with."""
    config = DataConfig.parse(folder.request["data"], f"{folder.path / REQUEST}: data")
    data = prepare(config, tokenizer=folder.tokenizer)
    if data.hash != folder.request["text"]:
        raise ValueError(
            f"{folder.path}: the text is not the one this search began with; put it back, or search elsewhere"
        )
    return data


def settle_environment(folder: SupernetFolder) -> None:
    """Use as many threads as before; warn where another environment may change the last bits."""
    train = folder.train
    recorded = folder.environment
    torch.set_num_threads(train.threads or int(recorded["threads"]))
    if others := differences(recorded, environment(World(train.device).device)):
        log.warning("%s: results may differ in the last bits: %s", folder.path, "; ".join(others))
