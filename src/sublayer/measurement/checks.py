"""What a measurement refuses before the first model is measured: options that contradict each other, and models that
cannot do the task or do not fit this machine."""

from __future__ import annotations

from collections.abc import Sequence

from sublayer.measurement import need
from sublayer.measurement.setting import Setting
from sublayer.nn.model import Model
from sublayer.training.distribution import find_device


def check(configs: Sequence[Model.Config], setting: Setting, seconds: float, wait: float = 0.0) -> None:
    if not 0 < seconds < float("inf"):
        raise ValueError(f"seconds={seconds:g}: repeats take time, and have to end; give a number above 0")
    if not 0 <= wait < float("inf"):
        raise ValueError(f"wait={wait:g}: expected seconds to wait for a quiet machine, such as 30, or 0")
    if setting.task != "segment" and (setting.memory or setting.frozen):
        raise ValueError(f"task={setting.task}: memory and frozen are a segment's; leave them out, or use segment")
    find_device(setting.device, key="device")
    for config in configs:
        setting.check(config)
        need.check(config, setting)
        if setting.frozen and not config.carries:
            raise ValueError(f"frozen: {config.tag} {config.dim} remembers no hidden states; leave it out")
