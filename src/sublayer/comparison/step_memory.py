"""Memory of training: by how much a process grows that takes a few steps of a run, and holds nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sublayer.executors import wire
from sublayer.executors.processes import Process
from sublayer.measurement import high_water
from sublayer.papers.registry import config as paper
from sublayer.runs import Run
from sublayer.training import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.job import read_data, restore_environment
from sublayer.training.loop import take_step
from sublayer.training.trainee import Trainee

STEPS = 2
"""In the first there are no moments of the optimiser yet."""


def step_memory(run: Run, plugins: Sequence[str] = ()) -> int | None:
    """Bytes at most: weights, gradients, the optimiser's moments and what a batch leaves for backward, with rows as
    long as they grow, and as the last stage has it. None where the system does not count them."""
    process = Process(run.environment.get("threads") or torch.get_num_threads(), plugins)
    try:
        found = process.ask(wire.name_of(probe), {"run": str(run.path.absolute())})
        if found is None:
            process.kill()
            raise ValueError(f"the process that trains {run.path} died, {process.bury()}")
        return wire.read(found)["memory"]
    finally:
        process.kill()
        process.bury()


def probe(task: dict[str, Any]) -> dict[str, Any]:
    """In a process of its own; nothing is written to the run."""
    run = Run.open(Path(task["run"]))
    config = TrainConfig.parse(run.asked["train"]).but(grow_from=None, stages=())
    world = World(config.device)
    restore_environment(run, config, world)
    data = read_data(run, world)
    on_cpu = world.device.type == "cpu"
    _warm_up(world.device)
    if on_cpu and not high_water.reset():
        return {"memory": None}
    before = high_water.held() if on_cpu else torch.accelerator.memory_allocated(world.device)
    trainee = Trainee.make(run, config, data, world, None)
    for _ in range(STEPS):
        take_step(trainee, config, world, config.rate)
    after = high_water.mark() if on_cpu else torch.accelerator.max_memory_allocated(world.device)
    return {"memory": after - before}


def _warm_up(device: torch.device) -> None:
    """Load what every training loads: code, threads, the matrix library's buffers; none of it is the model's memory."""
    model = paper("gpt2").but({"s.heads": 2}, dim=64, layout="(sf)x2", vocab=256).build().to(device)
    ids_BL = torch.zeros(2, 64, dtype=torch.long, device=device)
    model.head.loss(model(ids_BL)[0], ids_BL).backward()
    torch.optim.AdamW(model.parameters()).step()
