"""`sublayer search`: models within a budget of time and memory on this device, found without training."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from sublayer import executors
    from sublayer.data import Dataset
    from sublayer.nas import Space


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
        A Ray cluster to score proxies and to train on: auto, local, or its address. What is measured is measured here.
    plugin
        A module with parts, papers or spaces of your own; may be given more than once.
    json
        Print the front as JSON for other programs.
    """
    import_torch()
    from sublayer.cli import front
    from sublayer.cli.words import load_plugins, print_json
    from sublayer.measurement import Setting
    from sublayer.nas.on_device import search_here
    from sublayer.nas.trial import read_limits, read_objectives
    from sublayer.plugins import load_installed_plugins
    from sublayer.training import TrainConfig

    load_installed_plugins()
    load_plugins(plugin or [])
    if train and not data:
        raise ValueError(f"train={train}: there is no text to train on; add --data FILE")
    if not train and (keys := _keys(changes, "train")):
        raise ValueError(f"train.{next(iter(keys))}: nothing is trained; add --train 3, or leave it out")
    training = TrainConfig().override(_keys(changes, "train"), "train")
    limits = {"latency": latency_max, "memory": memory_max, "params": params_max}
    wanted = read_objectives(objectives)
    read_limits(limits)
    setting = Setting(task=task, length=length, memory=memory, threads=threads)  # pyright: ignore[reportArgumentType]
    text = _text(data, _keys(changes, "data"))
    space = _space(name, changes, text)
    folder = out or f"searches/{name}"
    with executors.pool(ray, plugins=plugin or ()) as pool, front.view(sys.stdout.isatty() and not json) as view:
        result = search_here(
            space,
            folder,
            setting=setting,
            text=text,
            objectives=wanted,
            limits=limits,
            train=train,
            training=training,
            pool=pool,
            plugins=plugin or (),
            seconds=seconds,
            say=view.say,
            tell=view.tell,
            method=method,
            seed=seed,
            population=population,
            iterations=iterations,
        )
    print_json(result) if json else front.print_front(result, folder, data)


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
    from sublayer.nas.on_device import fit

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
    return fit(read(name, changes, rules), text, changes)
