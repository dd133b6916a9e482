"""`sublayer search`: models within a budget of time and memory on this device, found without training."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from sublayer.data import Dataset
    from sublayer.measurement import Predictor, Setting
    from sublayer.nas import Space

CALIBRATED = 16
"""Whole models that predictions are fitted to before the search."""


def search(
    name: str,
    /,
    *changes: str,
    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = "",
    out: str = "",
    latency_max: str | None = None,
    memory_max: str | None = None,
    params_max: str | None = None,
    objectives: str = "decoder_params,latency,memory",
    method: str = "evolution",
    population: int = 100,
    iterations: int = 30,
    seed: int = 0,
    train: int = 0,
    task: str = "segment",
    length: int = 64,
    memory: int | None = None,
    threads: int | None = None,
    seconds: float = 3.0,
    ray: str | None = None,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Search a space for models within a budget of time and memory on this device; nothing is trained to find them.

    Stopped at any moment, the same command goes on.

    Examples: sublayer search sublayers --data book.txt --latency-max 5ms --memory-max 32MB --train 3 train.steps=2000 ·
    sublayer search gpt2 dim=128..512/64 'layout=(sf)x2|(sf)x4|(sf)x6' 'f.inner=each(128..2048/64)' s.heads=4 ·
    sublayer search lts-gpt2 --objectives decoder_params,latency --population 20 --iterations 5

    Parameters
    ----------
    name
        A space (sublayers, lts-transformer-xl, lts-gpt2, lts-opt, the first two also -homogeneous), or a paper or a
        file with a config, whose keys you then choose from.
    changes
        key=choices: 2|4|8, 128..512/64, and each(…), where every occurrence of the letter chooses for itself.
        key=value fixes a key. 'f.inner>1.7*dim' is a rule. train.… and data.… keys as in sublayer train.
    data
        The text whose vocabulary the models get, and which --train trains on; without it, the space's own vocabulary.
    out
        The folder of the search; searches/NAME if not given. The same command goes on with a search that is there.
    latency_max
        The longest a pass may take: 5ms, 0.2s.
    memory_max
        The most memory it may need at once: 64MB.
    params_max
        The most parameters: 10M.
    objectives
        Two or three figures: decoder_params, params, flops, latency, memory, or a proxy (sublayer proxies lists them).
    method
        evolution, random or nsga2.
    population
        How many candidates there are at first; four fifths as many come with each iteration.
    iterations
        How often.
    seed
        Of the search.
    train
        How many of the front to train on the text, the first objective's best first.
    task
        What is timed: segment, prefill or token (see sublayer measure).
    length
        Tokens of the segment or the prompt.
    memory
        Tokens remembered before the segment; as many as a model keeps, if not given.
    threads
        Processor threads of the models; as many as there are cores, if not given.
    seconds
        For how long each model of the front is measured, at most; more where the device is noisy.
    ray
        A Ray cluster to train on: auto, local, or its address.
    plugin
        A module with parts, papers or spaces of your own; may be given more than once.
    json
        Print the front as JSON for other programs.
    """
    import_torch()
    from sublayer import work
    from sublayer.api import load_installed_plugins
    from sublayer.cli import front
    from sublayer.cli.words import load_plugins
    from sublayer.measurement import Predictor, Setting
    from sublayer.nas import search as search_space
    from sublayer.nas.trial import read_limits, read_objectives
    from sublayer.nas.winners import train_best
    from sublayer.training import TrainConfig

    load_installed_plugins()
    load_plugins(plugin or [])
    if train and not data:
        raise ValueError(f"train={train}: there is no text to train on; add --data FILE")
    training = TrainConfig().override(_keys(changes, "train"), "train")
    limits = {"latency": latency_max, "memory": memory_max, "params": params_max}
    wanted = read_objectives(objectives)
    read_limits(limits)
    setting = Setting(task=task, length=length, memory=memory, threads=threads).settled()  # pyright: ignore[reportArgumentType]
    text = _text(data, _keys(changes, "data"))
    space = _space(name, changes, text)
    folder = out or f"searches/{name}"
    needed = {one.name for one in wanted} | {figure for figure, most in limits.items() if most}
    with ExitStack() as stack:
        view = stack.enter_context(front.view(sys.stdout.isatty() and not json))
        stages, ahead, notes = [], None, {"setting": setting.dump()}
        if needed & {"latency", "memory"}:
            predictor = stack.enter_context(Predictor(setting, plugins=plugin or ()))
            notes["device"] = predictor.table.device
            stages, ahead = _predicting(predictor, space, limits, view.say)
        stages += _proxies(needed, text, seed)
        result = search_space(
            space,
            stages,
            folder,
            objectives=wanted,
            limits=limits,
            method=method,
            seed=seed,
            population=population,
            iterations=iterations,
            length=length,
            memory=memory,
            notes=notes,
            remeasure=_measuring(setting, seconds, plugin or [], view.say) if "device" in notes else None,
            tell=view.tell,
            ahead=ahead or (lambda configs: None),
        )
        if train:
            assert text is not None
            with work.pool(ray, plugins=plugin or ()) as pool:
                result = train_best(folder, result, train, text, training, pool, view.say)
    front.print_json(result) if json else front.print_front(result, folder, data)


def _keys(words: tuple[str, ...], room: str) -> dict[str, Any]:
    """What stands after `train.` or `data.`."""
    from sublayer.cli.words import read_overrides

    mine = tuple(word for word in words if word.startswith(f"{room}."))
    return {key.removeprefix(f"{room}."): value for key, value in read_overrides(mine).items()}


def _text(data: str, keys: dict[str, Any]) -> Dataset | None:
    from sublayer.data import DataConfig, prepare

    if not data:
        if keys:
            raise ValueError(f"data.{next(iter(keys))}: there is no text; add --data FILE")
        return None
    config = DataConfig.guess(data)
    return prepare(config.override(keys, "data") if keys else config)


def _space(name: str, words: tuple[str, ...], text: Dataset | None) -> Space:
    """A choice is text until it is read: its commas are not those of a list."""
    from sublayer.cli.words import read_overrides
    from sublayer.nas import read
    from sublayer.nas.choice import chooses

    changes: dict[str, Any] = {}
    rules: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if key.startswith(("train.", "data.")):
            continue
        if not equals and any(mark in word for mark in "<>"):
            rules.append(word)
        elif equals and key and chooses(value):
            changes[key.strip()] = value
        else:
            changes |= read_overrides((word,))
    space = read(name, changes, rules)
    return space if text is None or "vocab" in changes else space.fitted(text.vocab)


def _predicting(predictor: Predictor, space: Space, limits: dict[str, str | None], say: Any) -> tuple[list[Any], Any]:
    """First what a model needs at least, then what it takes; and what has to be measured before that."""
    from random import Random

    from sublayer.nas.trial import counted, read_limits, weights

    most, rng, count = read_limits(limits), Random(0), counted()

    def small(config: Any) -> bool:
        figures = {**count(config), **weights(config)}
        return all(figures.get(name, 0) <= limit for name, limit in most.items())

    def told(what: str) -> Any:
        return lambda done, total: say(f"measuring {what} on this device: {done} of {total}")

    def ahead(configs: list[Any]) -> None:
        predictor.learn([config for config in configs if small(config)], told("sublayers"))

    def predict(config: Any) -> dict[str, float]:
        estimate = predictor.predict(config)
        return {"latency": estimate.latency, "memory": estimate.memory}

    drawn = (space.candidate(space.sample(rng)) for _ in range(20 * CALIBRATED))
    configs = [one.config for one in drawn if one is not None]
    fitting = ([config for config in configs if small(config)] or configs)[:CALIBRATED]
    ahead(fitting)
    predictor.calibrate(fitting, told("models"))
    return [weights, predict], ahead


def _measuring(setting: Setting, seconds: float, plugins: list[str], say: Any) -> Any:
    from sublayer.measurement import measure

    def read(config: Any) -> Any:
        say(f"measuring {next(iter(config.stacks.values())).layout} at {config.dim}")
        return measure([config], setting, seconds=seconds, plugins=plugins)[0]

    return read


def _proxies(needed: set[str], text: Dataset | None, seed: int) -> list[Any]:
    """Figures that neither counting nor measuring gives: proxies, which look at the first batches of the text."""
    others = sorted(needed - {"params", "decoder_params", "flops", "latency", "memory"})
    if not others:
        return []
    from sublayer.nas import proxies

    for name in others:
        if proxies.find(name).needs != "config" and text is None:
            raise ValueError(f"{name}: this proxy looks at a text; add --data FILE")

    def score(config: Any) -> dict[str, float]:
        batches = _batches(config, text)
        return {name: proxies.score(name, config, batches, seed) for name in others}

    return [score]


def _batches(config: Any, text: Dataset | None) -> list[Any]:
    from itertools import islice

    from sublayer.training import TrainConfig
    from sublayer.training.distribution import World
    from sublayer.training.trainee import make_batches

    if text is None:
        return []
    small = TrainConfig(batch=8, length=64)
    return list(islice(iter(make_batches(config, small, text, World("cpu"), None)), 2))
