"""The table of a device: time and memory of each kind of sublayer, measured when first needed and stored.

The speed of a device changes from second to second. So sublayers are measured in random order, and then once more in
another: sizes that are used together are not all measured in the same slow second, and the difference between the two
readings shows how noisy they are.

Readings are stored at the pace they were taken at, with their conditions, and scaled to the device's quiet pace when
they are used. A disturbed reading is used only until there is an undisturbed one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sublayer.files import cache
from sublayer.measurement import grid
from sublayer.measurement.device import fingerprint
from sublayer.measurement.quiet import Machine
from sublayer.measurement.quiet_pace import PaceFile, QuietPace
from sublayer.measurement.reading import Reading
from sublayer.measurement.setting import Setting
from sublayer.measurement.smoothing import deviation, smooth
from sublayer.measurement.specimen import Kind, copies
from sublayer.measurement.worker import Worker
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.runs import Lines

TOLERANCE, SECONDS = 0.03, 0.25
"""Relative precision wanted of a specimen's time, and the longest time to measure it."""
WHOLE_TOLERANCE, WHOLE_SECONDS = 0.02, 1.0
"""The same of a whole model."""
ROUNDS = 2

OnProgress = Callable[[int, int], None]
"""Called with the number of readings done, and of all."""


@dataclass(frozen=True)
class Entry:
    """What one sublayer adds to a pass."""

    latency: float
    """Seconds."""
    state: float
    """Bytes carried into the pass."""
    kept: float
    """Bytes that stay allocated: state it has added."""
    passing: float
    """Bytes beyond those while it runs."""

    def __mul__(self, share: float) -> Entry:
        return Entry(*(share * value for value in vars(self).values()))

    def __add__(self, other: Entry) -> Entry:
        return Entry(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


NOTHING = Entry(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class GridPoint:
    """A kind of sublayer at sizes of the grid."""

    kind: Kind
    dim: int
    inner: int | None
    memory: int

    @property
    def frame(self) -> GridPoint:
        return GridPoint(self.kind.frame, self.dim, None, self.memory)

    @cached_property
    def copies(self) -> int:
        return 1 if self.kind.part is None else copies(self.kind.model(self.dim, self.inner))

    @property
    def specimen(self) -> Model.Config:
        return self.kind.model(self.dim, self.inner, self.copies)

    @cached_property
    def name(self) -> str:
        return cache.key(around=self.kind.around, part=self.kind.part, sizes=[self.dim, self.inner, self.memory])


class Table:
    """Readings on disk, one file for each device and setting, and the entries computed from them."""

    def __init__(
        self,
        setting: Setting,
        folder: Path | str | None = None,
        plugins: Sequence[str] = (),
        machine: Machine | None = None,
    ) -> None:
        self.setting, self.plugins, self.folder = setting.resolved(), plugins, folder
        self.machine = machine or Machine()
        self.device = fingerprint(self.setting.device, self.setting.threads)
        name = f"{self.device['id']}-{cache.key(setting=self.setting.dump())[:12]}.jsonl"
        self.lines = Lines(cache.folder(folder) / "measurement" / name)
        self._readings: dict[str, list[Reading]] = {}
        self._names: dict[str, GridPoint | tuple[Model.Config, int]] = {}
        self._fitted: list[GridPoint] = []
        self._noise: float | None = None
        self._points: dict[GridPoint, Entry] = {}
        self._entries: dict[GridPoint, Entry] = {}
        self._neighbours: dict[GridPoint, list[tuple[GridPoint, float]]] = {}
        self._size = 0
        self._worker: Worker | None = None
        self._paces = PaceFile(self.device["id"], folder)
        self._quiet: QuietPace | None = self._paces.quiet()
        self._looked: bool | None = None

    def entry(self, kind: Kind, dim: int, inner: int | None, memory: int) -> Entry:
        """Interpolated between grid points; those not measured yet are measured."""
        asked = GridPoint(kind, dim, inner, memory)
        if asked not in self._entries:
            neighbours = self.points(kind, dim, inner, memory)
            self._entries[asked] = sum((self._at(point) * share for point, share in neighbours), NOTHING)
        return self._entries[asked]

    def points(self, kind: Kind, dim: int, inner: int | None, memory: int) -> list[tuple[GridPoint, float]]:
        """Grid points with their weights. Cached, as it takes a config to know whether a size is valid."""
        asked = GridPoint(kind, dim, inner, memory)
        if asked not in self._neighbours:
            self._neighbours[asked] = self._find(asked)
        return self._neighbours[asked]

    def _find(self, asked: GridPoint) -> list[tuple[GridPoint, float]]:
        kind, dim, inner, memory = asked.kind, asked.dim, asked.inner, asked.memory
        widths = [(inner, 1.0)] if inner is None else grid.between(inner, grid.INNER)
        dims = grid.between(dim, grid.WIDTHS)
        try:
            for size, _ in dims:
                kind.model(size, inner)
        except ConfigError:  # a grid point may not be divisible by the heads; the size itself is
            dims = [(dim, 1.0)]
        return [(GridPoint(kind, d, f, memory), share * part) for d, share in dims for f, part in widths]

    def learn(self, points: Collection[GridPoint], on_progress: OnProgress = lambda done, total: None) -> None:
        """Measure what is missing, in random order, in ROUNDS rounds; and again what was disturbed, if nothing disturbs
        now.

        The first call fits noise and curves, from its own readings alone: so the same table gives the same predictions,
        however many readings are added later.
        """
        wanted = list(dict.fromkeys([*points, *(point.frame for point in points)]))
        self._measure(wanted, on_progress)
        if self._noise is None and wanted:
            self._fitted = wanted
            self._fit_curves()

    def knows(self, points: Collection[GridPoint]) -> bool:
        """Whether all of them were measured, undisturbed."""
        with cache.held(self.lines.path):
            self._refresh()
        return all(len(self._good(point.name)) >= ROUNDS for point in points)

    def relearn(self, on_progress: OnProgress = lambda done, total: None) -> None:
        """Measure again what was used and disturbed, if nothing disturbs now; then fit anew."""
        doubtful, self._looked = self.doubtful, None
        if doubtful and self._quiet_now:
            self._measure([point for point in doubtful.values() if isinstance(point, GridPoint)], on_progress)
            for name, asked in doubtful.items():
                if not isinstance(asked, GridPoint):
                    self._read(name, *asked, WHOLE_TOLERANCE, WHOLE_SECONDS, 1, again=True)
        self._quiet = self._paces.quiet()
        self._fit_curves()

    @property
    def doubtful(self) -> dict[str, GridPoint | tuple[Model.Config, int]]:
        """What was used here although it was disturbed, or its conditions are unknown."""
        return {name: asked for name, asked in self._names.items() if not self._good(name)}

    @property
    def disturbed(self) -> str | None:
        """What disturbed the readings that are used, if a tenth of them or more were."""
        whys = [self._known(name)[0].disturbed for name in self.doubtful]
        known = [why for why in whys if why is not None]
        return max(known, key=known.count) if 10 * len(known) >= max(1, len(self._names)) else None

    def whole(self, config: Model.Config, memory: int) -> Reading:
        """A whole model, measured in the table's process; a stored reading is used again."""
        name = cache.key(config=config.hash, memory=memory)
        self._names[name] = config, memory
        again = bool(self._readings.get(name)) and not self._good(name) and self._quiet_now
        return self._read(name, config, memory, WHOLE_TOLERANCE, WHOLE_SECONDS, 1, again=again)[0]

    def forget(self) -> int:
        """Remove what is stored for this device and setting; the number of readings."""
        with cache.held(self.lines.path):
            self._refresh()
            count = sum(len(several) for several in self._readings.values())
            self.lines.path.unlink(missing_ok=True)
        self._readings, self._size = {}, 0
        return count

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process that measures."""
        if self._worker is not None:
            self._worker.__exit__()
            self._worker = None

    def _at(self, point: GridPoint) -> Entry:
        if point not in self._points:
            self._points[point] = self._make(point)
        return self._points[point]

    def _make(self, point: GridPoint) -> Entry:
        self._names[point.name] = point
        readings = self._read(point.name, point.specimen, point.memory, TOLERANCE, SECONDS, 1)
        latency, parts, count = usual(readings[:ROUNDS]), readings[0].parts, point.copies
        passing = parts.peak - parts.kept
        if point.kind.part is None:
            return Entry(latency, parts.state, parts.kept, passing)
        frame = self._at(point.frame)
        beyond = latency - frame.latency, parts.state - frame.state, parts.kept - frame.kept
        own, state, kept = (max(value, 0.0) / count for value in beyond)
        return Entry(own, state, kept, passing)

    def _fit_curves(self) -> None:
        """Fit curves through the points of each kind."""
        self._points, self._entries = {}, {}
        pairs = [self._known(point.name)[:ROUNDS] for point in self._fitted]
        self._noise = deviation([[one.latency for one in several] for several in pairs])
        kinds: dict[tuple[Kind, int], list[GridPoint]] = {}
        for point in self._fitted:
            kinds.setdefault((point.kind, point.memory), []).append(point)
        for alike in kinds.values():
            entries = [self._make(point) for point in alike]
            sizes = [(point.dim, point.inner) for point in alike]
            drawn = smooth(sizes, [entry.latency for entry in entries], self._noise)
            for point, entry, latency in zip(alike, entries, drawn, strict=True):
                self._points[point] = Entry(latency, entry.state, entry.kept, entry.passing)

    def _measure(self, wanted: Sequence[GridPoint], on_progress: OnProgress) -> None:
        with cache.held(self.lines.path):
            self._refresh()
        order, todo = random.Random(0), []
        for times in range(1, ROUNDS + 1):
            missing = [point for point in wanted if self._lacks(point.name, times)]
            todo += [(point, times) for point in order.sample(missing, len(missing))]
        self._names |= {point.name: point for point in wanted}
        for n, (point, times) in enumerate(todo):
            on_progress(n, len(todo))
            self._read(point.name, point.specimen, point.memory, TOLERANCE, SECONDS, times, again=True)

    def _lacks(self, name: str, times: int) -> bool:
        """Whether it is to be measured: always if there are too few readings, otherwise if better ones can be had."""
        if len(self._good(name)) >= times:
            return False
        return len(self._readings.get(name, [])) < times or self._quiet_now

    @property
    def _quiet_now(self) -> bool:
        """Whether nothing disturbs; looked at when the first doubtful reading is met."""
        if self._looked is None:
            self._looked = self.machine.disturbance(self.setting.threads or 1) is None
        return self._looked

    def _good(self, name: str) -> list[Reading]:
        return [one for one in self._settled(name) if one.pace is not None and not one.disturbed]

    def _known(self, name: str) -> list[Reading]:
        """The readings with the best conditions: undisturbed, else of unknown pace, else the least slowed."""
        settled = self._settled(name)
        unknown = [one for one in settled if one.pace is None]
        return self._good(name) or unknown or sorted(settled, key=_slowdown)

    def _settled(self, name: str) -> list[Reading]:
        """At the quiet pace."""
        several = self._readings.get(name, [])
        return several if self._quiet is None else [one.at(self._quiet) for one in several]

    def _read(
        self,
        name: str,
        config: Model.Config,
        memory: int,
        tolerance: float,
        seconds: float,
        times: int,
        again: bool = False,
    ) -> list[Reading]:
        """The readings of a name, after one more if there are fewer than `times`; again: fewer undisturbed ones."""

        def enough() -> bool:
            return len(self._good(name) if again else self._readings.get(name, [])) >= times

        if not enough():
            with cache.held(self.lines.path):  # a reading that another process adds meanwhile is not repeated
                self._refresh()
                if not enough():
                    self._worker = self._worker or Worker(self.setting, self.plugins, self.folder)
                    read = self._worker.read(config, memory=memory, tolerance=tolerance, seconds=seconds)
                    quiet = self._worker.learn_pace(read)
                    # Once curves are fitted, one pace holds for all entries, until `relearn` fits them anew.
                    self._quiet = quiet if self._noise is None else self._quiet
                    self._add({"name": name, **read.dump(), "device": self.device["id"]})
        return self._known(name)

    def _add(self, line: dict[str, object]) -> None:
        self.lines.add(line)
        self._refresh()

    def _refresh(self) -> None:
        """Read what was added, by this process or by others; the caller holds the lock."""
        self.lines.mend()
        if self.lines.size < self._size:  # another process has removed what was stored
            self._readings, self._size = {}, 0
        for line in self.lines.after(self._size):
            try:
                name, read = str(line.pop("name")), Reading.read(line | {"device": self.device})
            except (KeyError, TypeError):
                raise ValueError(
                    f"{self.lines.path}: a line is not a reading, so it was damaged or edited; remove the file, and "
                    "what it held is measured again"
                ) from None
            self._readings.setdefault(name, []).append(read)
        self._size = self.lines.size


def usual(readings: Sequence[Reading]) -> float:
    """Seconds: the geometric mean."""
    return math.exp(sum(math.log(one.latency) for one in readings) / len(readings))


def _slowdown(reading: Reading) -> float:
    return reading.conditions.slowdown if reading.conditions else math.inf
