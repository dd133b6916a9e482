"""The quiet pace of a device: the reference load's when nothing disturbs. Times are reported at this pace.

Every process that measures adds the pace it saw to a file in the cache, one for each device and number of threads. The
quiet pace is the usual one among the fastest; their spread is how far two processes differ for no visible reason.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from sublayer.files import atomic, cache
from sublayer.measurement.pace import COMPONENTS, Pace

NEAR = 1.15
"""Paces up to this factor of the fastest are those of a quiet device."""
USUAL_SPREAD, PRIOR = 0.03, 4
"""The spread assumed before there is evidence, and the number of samples that it weighs as much as."""
UNFAMILIAR = 0.08
"""Deviation of a pace that was seen in one minute only, in logarithms: the device may have been slow then. It falls
with every further minute."""
MINUTE = 60.0
AGREE = 0.1
"""A device is known when the faster half of its samples are within this of each other, in logarithms."""
MOST = 64
"""Samples that are stored, the latest."""
STEADY = 0.02
"""The stored pace stays as it is while a new estimate is this near, so that figures do not change with every sample."""


@dataclass(frozen=True)
class Sample:
    """The pace that one process saw."""

    pace: Pace
    disturbed: str | None = None
    at: float = field(default_factory=time.time)
    """Seconds since 1970. Samples of one minute share what the device went through in it."""

    def improves(self, known: QuietPace) -> bool:
        """Whether it is undisturbed where the known pace is not, or a component is faster by more than processes
        differ."""
        if self.disturbed is not None:
            return False
        faster = (here < there * math.exp(-2 * known.spread) for here, there in zip(self.pace, known.pace, strict=True))
        return known.disturbed is not None or any(faster)


@dataclass(frozen=True)
class QuietPace:
    pace: Pace
    spread: float
    """Standard deviation between processes, in logarithms."""
    disturbed: str | None = None
    """What disturbed all samples; None if some were undisturbed."""

    @classmethod
    def of(cls, samples: list[Sample]) -> QuietPace:
        good = [one for one in samples if one.disturbed is None]
        columns = [_fastest(list(column)) for column in zip(*(one.pace for one in good or samples), strict=True)]
        minutes = len({one.at // MINUTE for one in good or samples})
        return cls(
            Pace(*(median(column) for column in columns)),
            math.hypot(mean(_spread(column) for column in columns), UNFAMILIAR / minutes),
            None if good else samples[0].disturbed,
        )


class PaceFile:
    def __init__(self, device_id: str, folder: Path | str | None = None) -> None:
        self.path = cache.folder(folder) / "measurement" / f"{device_id}-pace.json"

    def quiet(self) -> QuietPace | None:
        """As stored; None if the file is absent or damaged, for it is made again as models are measured."""
        stored = self._read()
        return stored and _quiet(*stored)

    def familiar(self, count: int) -> bool:
        """Whether that many undisturbed samples are stored, and the faster half of them agree."""
        stored = self._read()
        means = sorted(mean(map(math.log, one.pace)) for one in (stored[1] if stored else []) if one.disturbed is None)
        return len(means) >= count and (not means or means[len(means) // 2] - means[0] <= AGREE)

    def add(self, sample: Sample) -> QuietPace:
        """The quiet pace with one more sample. Disturbed ones count only until there is an undisturbed one."""
        try:
            with cache.held(self.path):
                pace, samples = _with(self._read(), sample)
                stored = {"pace": pace.dump(), "samples": [_dump(one) for one in samples]}
                with atomic.writing(self.path) as file:
                    file.write(json.dumps(stored).encode())
        except ValueError:  # the cache cannot be written
            pace, samples = _with(self._read(), sample)
        return _quiet(pace, samples)

    def _read(self) -> tuple[Pace, list[Sample]] | None:
        try:
            data: dict[str, Any] = json.loads(self.path.read_bytes())
            samples = [Sample(_pace(one), one["disturbed"], float(one.get("at", 0))) for one in data["samples"]]
            return (_pace(data["pace"]), samples) if samples else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _with(stored: tuple[Pace, list[Sample]] | None, sample: Sample) -> tuple[Pace, list[Sample]]:
    samples = _better([*(stored[1] if stored else []), sample])
    fresh = QuietPace.of(samples).pace
    if stored and all(abs(math.log(new / old)) <= STEADY for new, old in zip(fresh, stored[0], strict=True)):
        return stored[0], samples
    return fresh, samples


def _quiet(pace: Pace, samples: list[Sample]) -> QuietPace:
    return replace(QuietPace.of(samples), pace=pace)


def _pace(data: dict[str, Any]) -> Pace:
    return Pace(**{name: float(data[name]) for name in COMPONENTS})


def _better(samples: list[Sample]) -> list[Sample]:
    good = [one for one in samples if one.disturbed is None]
    return good[-MOST:] or [min(samples, key=lambda one: math.prod(one.pace))]


def _fastest(column: list[float]) -> list[float]:
    least = min(column)
    return [value for value in column if value <= NEAR * least]


def _spread(column: list[float]) -> float:
    middle = median(column)
    squares = sum(math.log(value / middle) ** 2 for value in column)
    return math.sqrt((squares + PRIOR * USUAL_SPREAD**2) / (len(column) + PRIOR))


def _dump(sample: Sample) -> dict[str, Any]:
    return {**sample.pace.dump(), "disturbed": sample.disturbed, "at": sample.at}
