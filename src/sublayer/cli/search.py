"""`sublayer search`: models within a budget of time and memory on this device, found without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.cli.stopping import same_command, when_stopped
from sublayer.progress import Display


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
    pick: Literal["best", "fastest", "knee"] | None = None,
    task: str = "segment",
    length: int = 64,
    memory: int | None = None,
    threads: int | None = None,
    seconds: float = 3.0,
    budget: str | None = None,
    wait: float = 30.0,
    remeasure: Annotated[bool, Parameter(negative="")] = False,
    ray: str | None = None,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Search a space for models within a budget of time and memory on this device; nothing is trained to find them.

    A search that was stopped is continued by the same command. Every candidate has a name, OUT#TRIAL, such as
    searches/first#294, which sublayer show, train, measure, compare and report take; OUT#best, OUT#fastest and OUT#knee
    name models of the front.

    Examples: sublayer search sublayers --data book.txt --latency-max 5ms --memory-max 32MB --train 3 train.steps=2000 ·
    sublayer search gpt2 dim=128..512/64 'layout=(sf)x2|(sf)x4|(sf)x6' 'f.inner=each(128..2048/64)' s.heads=4 ·
    sublayer search lts-gpt2 --objectives decoder_params,latency --population 20 --iterations 5

    Parameters
    ----------
    name
        A space (sublayers, lts-opt, lts-transformer-xl and lts-gpt2, the last two also with -homogeneous), or a paper
        or a config file, whose keys you then choose from.
    changes
        key=choices: 2|4|8, 128..512/64, and each(…) for one choice per occurrence of the letter. key=value fixes a
        key. 'f.inner>1.7*dim' is a rule. A layout rule, as in 'layout=(sf)x4|par(5)', stands on the paper's own layout;
        par(5,12) on 12 sublayers; after another layout, as in layout='(sf)x4' 'layout=par(3)|par(5)', on that one.
        train.… and data.… keys as in sublayer train.
    data
        The text that sets the vocabulary, and that proxies and --train read. Default: the space's own vocabulary.
    out
        The folder of the search; default searches/NAME.
    latency_max
        Largest latency of a pass: 5ms, 0.2s.
    memory_max
        Largest peak memory of a pass: 64MB.
    params_max
        Largest number of parameters: 10M.
    objectives
        Two or three figures to optimise: decoder_params, params, flops, latency, memory, or a proxy such as synflow.
    method
        Search method: evolution, random or nsga2.
    population
        Number of candidates in the first generation; later ones have four fifths as many.
    iterations
        Number of generations after the first.
    seed
        Random seed of the search.
    train
        Number of models of the front to train on the text, the best by the first objective.
    pick
        Print one model of the front, and the command that trains it. best: by the first objective. fastest: of the
        lowest latency, measured where it was measured. knee: of two objectives, scaled to their range on the front, the
        model farthest from the line between the front's ends; of three, the one nearest to the best value of each.
        Models whose measurement exceeds a limit are left out.
    task
        What is measured: segment, prefill or token (see sublayer measure).
    length
        Length of the segment or the prompt, in tokens.
    memory
        Number of tokens remembered before the segment; default: as many as the model's memory holds.
    threads
        Number of processor threads; default: one per core.
    seconds
        Longest time to measure each model of the front, in seconds; give more where the device is noisy.
    budget
        A paper, config file or run whose latency is the largest allowed; it is measured together with the front.
    wait
        Seconds to wait for a quiet machine, before sublayers and again before the front are measured.
    remeasure
        Measure sublayers again instead of using what is stored for this device.
    ray
        A Ray cluster to score proxies and to train on: auto, local, or its address. Measurements stay on this device.
    plugin
        A module with parts, papers or spaces of your own; can be repeated.
    json
        Print the front as JSON.
    """
    folder = out or f"searches/{name}"
    with when_stopped(lambda: _stopped(Path(folder))), Display("starting") as display:
        import_torch()
        import sublayer
        from sublayer.cli import front
        from sublayer.cli.choices import read_choices
        from sublayer.cli.words import load_plugins, print_json
        from sublayer.nas.point import picked

        load_plugins(plugin or [])
        keys, rules = read_choices(changes)
        result = sublayer.search(
            name,
            data or None,
            folder,
            keys,
            rules=rules,
            objectives=objectives,
            limits={"latency": latency_max, "memory": memory_max, "params": params_max},
            setting={"task": task, "length": length, "memory": memory, "threads": threads},
            train=train,
            ray=ray,
            plugins=plugin or (),
            reporter=front.SearchView(display),
            method=method,
            seed=seed,
            population=population,
            iterations=iterations,
            seconds=seconds,
            budget=budget,
            wait=wait,
            remeasure=remeasure,
        )
    point = picked(result, folder, pick) if pick else None
    if json:
        print_json(result.to_json() | ({"pick": {"by": pick, "name": point.name}} if point else {}))
        return
    front.print_front(result, folder, data)
    if point:
        front.print_pick(point, str(pick), data, plugin or ())


def _stopped(folder: Path) -> str:
    """What a search that was stopped has saved, and how to go on."""
    if not (folder / "search.json").exists():
        return f"stopped; nothing is saved yet. {same_command()}"
    return f"stopped; candidates and trainings so far are saved in {folder}. {same_command()}"
