"""The work of the measuring process: build models, measure their memory, time their passes in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch.nn import functional as F

from sublayer.measurement import high_water, passes
from sublayer.measurement.allocations import allocated
from sublayer.measurement.clock import Runner, Timing, interval, timed
from sublayer.measurement.conditions import Conditions
from sublayer.measurement.counters import MachineCounters, Neighbours
from sublayer.measurement.device import fingerprint
from sublayer.measurement.pace import Pace, Shares
from sublayer.measurement.reading import Memory, Reading
from sublayer.measurement.reference_load import reference_load, shares
from sublayer.measurement.setting import Setting
from sublayer.nn.model import Model
from sublayer.papers.registry import config as paper


def probe(task: dict[str, Any]) -> dict[str, Any]:
    """From plain data, configs, a setting and the time to spend, to readings as plain data, each at its own pace.

    rounds: for each model the seconds of each round at its own pace, None where it had to wait for a processor.
    """
    configs, setting = [Model.Config.parse(one) for one in task["configs"]], Setting.parse(task["setting"])
    try:
        return read(configs, setting, task["tolerance"], task["seconds"], task["alone"])
    except (RuntimeError, MemoryError) as error:
        if not str(error):  # a NotImplementedError of ours, not a refusal
            raise
        raise ValueError(f"the model cannot be run here: {str(error).splitlines()[0]}") from None


@torch.inference_mode()
def read(
    configs: Sequence[Model.Config], setting: Setting, tolerance: float, seconds: float, alone: bool
) -> dict[str, Any]:
    """alone: this process has held no other model, so that the high-water mark is that of the one model."""
    assert setting.threads is not None
    torch.set_num_threads(setting.threads)
    torch.manual_seed(0)
    if alone:
        _warm_up(setting)
        high_water.reset()
    held = [_Held(config, setting, alone) for config in configs]
    if not seconds:
        return {"high_water": [one.high_water for one in held]}
    reference = {name: _synchronised(work, setting.device) for name, work in reference_load(setting.device).items()}
    before = MachineCounters.now()
    timings = timed([one.runner() for one in held], reference, tolerance=tolerance, seconds=seconds)
    neighbours = Neighbours.between(before, MachineCounters.now())
    readings = [one.reading(timing, neighbours) for one, timing in zip(held, timings, strict=True)]
    return {"readings": [one.dump() for one in readings], "rounds": [timing.rounds for timing in timings]}


class _Held:
    """A model in this process, and the memory of its pass."""

    def __init__(self, config: Model.Config, setting: Setting, alone: bool) -> None:
        self.config, self.setting = config, setting
        before = high_water.held()
        self.model = passes.build(config, setting.device)
        self.high_water = _high_water(self.model, setting, before) if alone else None
        made: list[passes.Pass] = []
        carried = allocated(lambda: made.append(passes.make(self.model, setting)), setting.device)
        found = allocated(made.pop().run, setting.device)
        self.memory = Memory(passes.weights(self.model), carried.kept, found.peak, found.kept)

    def runner(self) -> Runner:
        made = passes.make(self.model, self.setting)
        made.prepare()
        return Runner(_synchronised(made.run, self.setting.device), made.prepare, self._shares)

    def reading(self, timing: Timing, neighbours: Neighbours | None) -> Reading:
        threads, pace = self.setting.threads or 1, timing.pace
        values = timing.at_pace(pace)
        return Reading(
            median(values),
            *interval(values),
            repeats=len(values),
            parts=self.memory,
            device=fingerprint(self.setting.device, threads),
            high_water=self.high_water,
            raw=median(one.lap.wall for one in timing.used),
            pace=pace,
            shares=timing.shares,
            conditions=Conditions.of(timing, threads, neighbours),
        )

    def _shares(self, seconds: float, pace: Pace) -> Shares:
        asked = self.setting
        new, earlier = (1, asked.length) if asked.task == "token" else (asked.length, asked.remembered(self.config))
        flops = asked.batch * self.config.cost(new, earlier).flops.total
        return shares(seconds, pace, flops, self.memory.weights)


def _high_water(model: Model, setting: Setting, before: int) -> int | None:
    """Bytes beyond `before` while the pass runs, without the peaks of building and preparing."""
    made = passes.make(model, setting)
    if setting.device != "cpu" or not high_water.reset():
        return None
    made.run()
    return high_water.mark() - before


def _synchronised(run: Callable[[], object], device: str) -> Callable[[], object]:
    """A call that returns when its work on the device is done."""
    if torch.device(device).type == "cpu":
        return run

    def both() -> None:
        run()
        torch.accelerator.synchronize(device)

    return both


def _warm_up(setting: Setting) -> None:
    """Load what every model loads: code, threads, the matrix library's buffers; none of it is the model's memory."""
    small = paper("gpt2").but({"s.heads": 2}, dim=64, layout="(sf)x2", vocab=256, position="rotary")
    made = passes.make(passes.build(small, setting.device), setting.but(length=64, memory=None))
    made.run()
    F.linear(*(torch.ones(rows, 512, device=setting.device) for rows in (64, 16_384)))
    allocated(made.run if setting.task != "segment" else made.prepare, setting.device)
