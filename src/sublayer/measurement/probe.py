"""The work of the measuring process: build a model, measure its memory, time its pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from sublayer.measurement import high_water, passes
from sublayer.measurement.allocations import allocated
from sublayer.measurement.clock import timed
from sublayer.measurement.device import fingerprint
from sublayer.measurement.reading import Memory, Reading
from sublayer.measurement.reference_load import ReferenceLoad
from sublayer.measurement.setting import Setting
from sublayer.nn.model import Model
from sublayer.papers.registry import config as paper


def probe(task: dict[str, Any]) -> dict[str, Any]:
    """From plain data, a config, a setting and the time to spend, to a reading as plain data."""
    config, setting = Model.Config.parse(task["config"]), Setting.parse(task["setting"])
    try:
        return read(config, setting, task["tolerance"], task["seconds"], task["alone"]).dump()
    except (RuntimeError, MemoryError) as error:
        if not str(error):  # a NotImplementedError of ours, not a refusal
            raise
        raise ValueError(f"the model cannot be run here: {str(error).splitlines()[0]}") from None


@torch.inference_mode()
def read(config: Model.Config, setting: Setting, tolerance: float, seconds: float, alone: bool) -> Reading:
    assert setting.threads is not None
    torch.set_num_threads(setting.threads)
    torch.manual_seed(0)
    if alone:
        _warm_up(setting)
        high_water.reset()
    before = high_water.held()
    model = passes.build(config, setting.device)
    mark = _high_water(model, setting, before) if alone else None
    made: list[passes.Pass] = []
    carried = allocated(lambda: made.append(passes.make(model, setting)), setting.device)
    found = allocated(made.pop().run, setting.device)
    again = passes.make(model, setting)
    again.prepare()
    run, reference = (_synchronised(work, setting.device) for work in (again.run, ReferenceLoad(setting.device)))
    timing = timed(run, reference, again.prepare, tolerance=tolerance, seconds=seconds)
    memory = Memory(passes.weights(model), carried.kept, found.peak, found.kept)
    times = timing.median, timing.low, timing.high, timing.repeats, timing.pace
    return Reading(*times, memory, fingerprint(setting.device, setting.threads), mark)


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
