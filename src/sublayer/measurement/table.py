"""The table of a device: time and memory of each kind of sublayer, measured when first needed and stored.

The speed of a device changes from second to second. So sublayers are measured in random order, and then once more in
another: sizes that are used together are not all measured in the same slow second, and the difference between the two
readings shows how noisy they are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sublayer.files import cache
from sublayer.measurement import grid
from sublayer.measurement.device import fingerprint
from sublayer.measurement.pace import Pace
from sublayer.measurement.reading import Reading
from sublayer.measurement.setting import Setting
from sublayer.measurement.smoothing import smooth
from sublayer.measurement.specimen import Kind, copies
from sublayer.measurement.worker import Worker
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.runs import Lines

TOLERANCE, SECONDS = 0.03, 0.25
"""Relative precision wanted of a specimen's time, and the longest time to measure it."""
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

    def __init__(self, setting: Setting, folder: Path | str | None = None, plugins: Sequence[str] = ()) -> None:
        self.setting, self.plugins = setting.resolved(), plugins
        self.device = fingerprint(self.setting.device, self.setting.threads)
        name = f"{self.device['id']}-{cache.key(setting=self.setting.dump())[:12]}.jsonl"
        self.lines = Lines(cache.folder(folder) / "measurement" / name)
        self._readings: dict[str, list[Reading]] = {}
        self._pace: Pace | None = None
        self._points: dict[GridPoint, Entry] = {}
        self._entries: dict[GridPoint, Entry] = {}
        self._neighbours: dict[GridPoint, list[tuple[GridPoint, float]]] = {}
        self._size = 0
        self._worker: Worker | None = None

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
        """Measure what is missing, in random order, in ROUNDS rounds.

        The first call fits pace and curves, from its own readings alone: so the same table gives the same predictions,
        however many readings are added later.
        """
        wanted = list(dict.fromkeys([*points, *(point.frame for point in points)]))
        with cache.held(self.lines.path):
            self._refresh()
        order, todo = random.Random(0), []
        for times in range(1, ROUNDS + 1):
            missing = [point for point in wanted if len(self._readings.get(point.name, [])) < times]
            todo += [(point, times) for point in order.sample(missing, len(missing))]
        for n, (point, times) in enumerate(todo):
            on_progress(n, len(todo))
            self._read(point.name, point.specimen, point.memory, TOLERANCE, SECONDS, times)
        if self._pace is None and wanted:
            self._pace = Pace.of([self._readings[point.name][:ROUNDS] for point in wanted])
            self._fit_curves(wanted)

    def whole(self, config: Model.Config, memory: int, *, tolerance: float, seconds: float) -> Reading:
        """A whole model, measured in the table's process; a stored reading is used again."""
        name = cache.key(config=config.hash, memory=memory)
        return self._read(name, config, memory, tolerance, seconds, 1)[0]

    @property
    def pace(self) -> Pace:
        """From the readings of the first `learn`, or from all readings before it."""
        return self._pace or Pace.of(self._readings.values())

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
        readings = self._read(point.name, point.specimen, point.memory, TOLERANCE, SECONDS, 1)
        latency, parts, count = self.pace.usual(readings[:ROUNDS]), readings[0].parts, point.copies
        passing = parts.peak - parts.kept
        if point.kind.part is None:
            return Entry(latency, parts.state, parts.kept, passing)
        frame = self._at(point.frame)
        beyond = latency - frame.latency, parts.state - frame.state, parts.kept - frame.kept
        own, state, kept = (max(value, 0.0) / count for value in beyond)
        return Entry(own, state, kept, passing)

    def _fit_curves(self, points: Sequence[GridPoint]) -> None:
        """Fit curves through the points of each kind."""
        self._points, self._entries = {}, {}
        kinds: dict[tuple[Kind, int], list[GridPoint]] = {}
        for point in points:
            kinds.setdefault((point.kind, point.memory), []).append(point)
        for alike in kinds.values():
            entries = [self._make(point) for point in alike]
            sizes = [(point.dim, point.inner) for point in alike]
            drawn = smooth(sizes, [entry.latency for entry in entries], self.pace.noise)
            for point, entry, latency in zip(alike, entries, drawn, strict=True):
                self._points[point] = Entry(latency, entry.state, entry.kept, entry.passing)

    def _read(
        self, name: str, config: Model.Config, memory: int, tolerance: float, seconds: float, times: int
    ) -> list[Reading]:
        """All readings of a name, after one more if there are fewer than `times`."""
        if len(self._readings.get(name, [])) < times:
            with cache.held(self.lines.path):  # a reading that another process adds meanwhile is not repeated
                self._refresh()
                if len(self._readings.get(name, [])) < times:
                    self._worker = self._worker or Worker(self.setting, self.plugins)
                    read = self._worker.read(config, memory=memory, tolerance=tolerance, seconds=seconds)
                    self._add({"name": name, **read.dump(), "device": self.device["id"]})
        return self._readings[name]

    def _add(self, line: dict[str, object]) -> None:
        self.lines.add(line)
        self._refresh()

    def _refresh(self) -> None:
        """Read what was added, by this process or by others; the caller holds the lock."""
        self.lines.mend()
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
