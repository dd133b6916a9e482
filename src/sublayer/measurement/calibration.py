"""Calibration: a device that is new to the cache shows its pace in several processes before any figure is given.

A single first process may meet a slow minute of a shared host, or be a slow one itself, and every later figure would be
scaled to that.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch

from sublayer.executors.processes import Process
from sublayer.measurement.clock import Runner, timed
from sublayer.measurement.conditions import Conditions
from sublayer.measurement.counters import MachineCounters, Neighbours
from sublayer.measurement.device import fingerprint
from sublayer.measurement.lock import measuring_lock
from sublayer.measurement.pace import Pace
from sublayer.measurement.quiet_pace import PaceFile, Sample
from sublayer.measurement.reference_load import reference_load
from sublayer.measurement.setting import Setting

log = logging.getLogger("sublayer.measurement")

ENOUGH = 5
"""Processes that show their pace."""
MOST = 10
"""As many where they differ."""
SECONDS = 0.5
"""For which each of them repeats the reference load."""
SHOW = "sublayer.measurement.calibration:show_pace"


def calibrate(setting: Setting, folder: Path | str | None = None) -> None:
    """Take samples of the device's pace until enough of them agree. A busy machine is not waited for: what is measured
    on it is refused by itself."""
    assert setting.threads is not None
    file = PaceFile(fingerprint(setting.device, setting.threads)["id"], folder)
    if file.quiet() is None:
        log.warning("this device is new here: its pace is taken first, for some 15 seconds, once")
    for _ in range(MOST):
        if file.familiar(ENOUGH):
            return
        with measuring_lock():
            process = Process(setting.threads, ())
            try:
                found = process.ask(SHOW, setting.dump())
            finally:
                process.kill()
                process.bury()
        if found is None or "result" not in found:  # the measurement itself will show why
            return
        sample = Sample(Pace(**found["result"]["pace"]), found["result"]["busy"])
        file.add(sample)
        if sample.disturbed is not None or file.quiet() is None:  # None: the cache cannot be written
            return


@torch.inference_mode()
def show_pace(task: dict[str, Any]) -> dict[str, Any]:
    """The pace of this process, and who disturbed it."""
    setting = Setting.parse(task)
    assert setting.threads is not None
    torch.set_num_threads(setting.threads)
    load, before = reference_load(setting.device), MachineCounters.now()
    (timing,) = timed([Runner(load["products"])], load, tolerance=0.0, seconds=SECONDS)
    conditions = Conditions.of(timing, setting.threads, Neighbours.between(before, MachineCounters.now()))
    return {"pace": timing.pace.dump(), "busy": conditions.busy}
