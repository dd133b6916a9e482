"""Where the figures of candidates come from, and who measures the models of the front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sublayer.data import Dataset
from sublayer.executors import Pool
from sublayer.measurement import Setting
from sublayer.measurement.quiet import WAIT
from sublayer.nas import on_device, proxies
from sublayer.nas.goals import COUNTED, MEASURED
from sublayer.nas.proxy_stage import ProxyStage
from sublayer.nas.records import MeasuredFigures
from sublayer.nas.reporters import SearchReporter
from sublayer.nas.stages import Stage, WeightStage
from sublayer.nn.config import unknown
from sublayer.nn.model import Model


class Meter(Protocol):
    def measure(self, configs: Sequence[Model.Config]) -> Sequence[MeasuredFigures]:
        """All of them in one race."""
        ...


@dataclass(frozen=True)
class Sources:
    """`with sources:` frees what the stages hold."""

    stages: Sequence[Stage] = ()
    """After the counts, which every search has."""
    meter: Meter | None = None
    """None: the front is not measured."""
    setting: dict[str, Any] | None = None
    device: dict[str, Any] | None = None
    text: str | None = None
    """The hash of the text that proxies read. These three are part of the request."""

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *error: object) -> None:
        for stage in self.stages:
            stage.close()


def on_this_device(
    figures: set[str],
    limits: Mapping[str, float],
    setting: Setting,
    text: Dataset | None,
    *,
    seed: int,
    seconds: float,
    pool: Pool,
    plugins: Sequence[str],
    reporter: SearchReporter,
    wait: float = WAIT,
    remeasure: bool = False,
) -> Sources:
    """The stages that give these figures: the device's predictor for latency and memory, proxies for the others."""
    stages: list[Stage] = []
    meter = device = None
    names = sorted(figures - {*COUNTED, *MEASURED})
    for name in names:
        if name not in proxies.names():
            raise ValueError(unknown("objective", name, dict.fromkeys((*COUNTED, *MEASURED, *proxies.names()))))
    # A proxy that cannot be scored is refused before the device is looked at.
    scored = [ProxyStage(names, text, seed, pool, reporter)] if names else []
    if figures & MEASURED.keys():
        predictor = on_device.Predictor(setting, plugins=plugins)
        stages = [WeightStage(), on_device.LatencyStage(predictor, limits, reporter, wait, remeasure)]
        meter = on_device.DeviceMeter(setting, seconds, plugins, reporter, wait)
        device = predictor.table.device
    read = text.hash if names and text is not None else None
    return Sources([*stages, *scored], meter, setting.dump(), device, read)
