"""The table of a device: what each kind of sublayer takes, measured when first asked for and kept.

A device has good and bad seconds. So what can be foreseen is measured in an order drawn at random, and then once more
in another: sizes that are used together are not all read in the same bad second, and what differs between the two
readings tells how far to trust them.
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
"""How well a specimen's time is to be known, and for how long that is tried each time."""
ROUNDS = 2

Told = Callable[[int, int], None]
"""Hears how many readings of how many are done."""


@dataclass(frozen=True)
class Entry:
    """What one sublayer adds to a pass."""

    latency: float
    """Seconds."""
    state: float
    """Bytes carried into the pass."""
    kept: float
    """Bytes that it leaves behind: state it has added."""
    passing: float
    """Bytes beyond those while it runs."""

    def __mul__(self, share: float) -> Entry:
        return Entry(*(share * value for value in vars(self).values()))

    def __add__(self, other: Entry) -> Entry:
        return Entry(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


NOTHING = Entry(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Rung:
    """A kind of sublayer at sizes at which it is measured."""

    kind: Kind
    dim: int
    inner: int | None
    memory: int

    @property
    def frame(self) -> Rung:
        return Rung(self.kind.frame, self.dim, None, self.memory)

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
    """Readings on disk, one file for each device and setting; entries are made of them."""

    def __init__(self, setting: Setting, folder: Path | str | None = None, plugins: Sequence[str] = ()) -> None:
        self.setting, self.plugins = setting.resolved(), plugins
        self.device = fingerprint(self.setting.device, self.setting.threads)
        name = f"{self.device['id']}-{cache.key(setting=self.setting.dump())[:12]}.jsonl"
        self.lines = Lines(cache.folder(folder) / "measurement" / name)
        self._readings: dict[str, list[Reading]] = {}
        self._pace: Pace | None = None
        self._rungs: dict[Rung, Entry] = {}
        self._entries: dict[Rung, Entry] = {}
        self._beside: dict[Rung, list[tuple[Rung, float]]] = {}
        self._size = 0
        self._worker: Worker | None = None

    def entry(self, kind: Kind, dim: int, inner: int | None, memory: int) -> Entry:
        """Between the rungs beside its sizes; what is missing is measured."""
        asked = Rung(kind, dim, inner, memory)
        if asked not in self._entries:
            beside = self.rungs(kind, dim, inner, memory)
            self._entries[asked] = sum((self._at(rung) * share for rung, share in beside), NOTHING)
        return self._entries[asked]

    def rungs(self, kind: Kind, dim: int, inner: int | None, memory: int) -> list[tuple[Rung, float]]:
        """With their shares; found once, as whether a size can be takes a config to know."""
        asked = Rung(kind, dim, inner, memory)
        if asked not in self._beside:
            self._beside[asked] = self._find(asked)
        return self._beside[asked]

    def _find(self, asked: Rung) -> list[tuple[Rung, float]]:
        kind, dim, inner, memory = asked.kind, asked.dim, asked.inner, asked.memory
        widths = [(inner, 1.0)] if inner is None else grid.between(inner, grid.INNER)
        dims = grid.between(dim, grid.WIDTHS)
        try:
            for size, _ in dims:
                kind.model(size, inner)
        except ConfigError:  # a rung may not suit the heads; the size itself does
            dims = [(dim, 1.0)]
        return [(Rung(kind, d, f, memory), share * part) for d, share in dims for f, part in widths]

    def learn(self, rungs: Collection[Rung], told: Told = lambda done, total: None) -> None:
        """Measure what is missing, in random order, round after round.

        What is learned first settles pace and curves, by its own readings alone: the same predictions follow from the
        same table, however much is added to it later.
        """
        wanted = list(dict.fromkeys([*rungs, *(rung.frame for rung in rungs)]))
        with cache.held(self.lines.path):
            self._refresh()
        order, todo = random.Random(0), []
        for times in range(1, ROUNDS + 1):
            missing = [rung for rung in wanted if len(self._readings.get(rung.name, [])) < times]
            todo += [(rung, times) for rung in order.sample(missing, len(missing))]
        for n, (rung, times) in enumerate(todo):
            told(n, len(todo))
            self._read(rung.name, rung.specimen, rung.memory, TOLERANCE, SECONDS, times)
        if self._pace is None and wanted:
            self._pace = Pace.of([self._readings[rung.name][:ROUNDS] for rung in wanted])
            self._draw(wanted)

    def whole(self, config: Model.Config, memory: int, *, tolerance: float, seconds: float) -> Reading:
        """A whole model, by a process that goes on to the next: what was read before is not read again."""
        name = cache.key(config=config.hash, memory=memory)
        return self._read(name, config, memory, tolerance, seconds, 1)[0]

    @property
    def pace(self) -> Pace:
        """Of this device, by what was learned first; by all there is, where nothing was."""
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

    def _at(self, rung: Rung) -> Entry:
        if rung not in self._rungs:
            self._rungs[rung] = self._make(rung)
        return self._rungs[rung]

    def _make(self, rung: Rung) -> Entry:
        readings = self._read(rung.name, rung.specimen, rung.memory, TOLERANCE, SECONDS, 1)
        latency, parts, count = self.pace.usual(readings[:ROUNDS]), readings[0].parts, rung.copies
        passing = parts.peak - parts.kept
        if rung.kind.part is None:
            return Entry(latency, parts.state, parts.kept, passing)
        frame = self._at(rung.frame)
        beyond = latency - frame.latency, parts.state - frame.state, parts.kept - frame.kept
        own, state, kept = (max(value, 0.0) / count for value in beyond)
        return Entry(own, state, kept, passing)

    def _draw(self, rungs: Sequence[Rung]) -> None:
        """Curves through the rungs of each kind."""
        self._rungs, self._entries = {}, {}
        kinds: dict[tuple[Kind, int], list[Rung]] = {}
        for rung in rungs:
            kinds.setdefault((rung.kind, rung.memory), []).append(rung)
        for alike in kinds.values():
            entries = [self._make(rung) for rung in alike]
            sizes = [(rung.dim, rung.inner) for rung in alike]
            drawn = smooth(sizes, [entry.latency for entry in entries], self.pace.wavering)
            for rung, entry, latency in zip(alike, entries, drawn, strict=True):
                self._rungs[rung] = Entry(latency, entry.state, entry.kept, entry.passing)

    def _read(
        self, name: str, config: Model.Config, memory: int, tolerance: float, seconds: float, times: int
    ) -> list[Reading]:
        """All there are of a name, after one more if there are fewer than so many."""
        if len(self._readings.get(name, [])) < times:
            with cache.held(self.lines.path):  # what another process reads meanwhile is not read again
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
        """What was added, by this process or by others; for whoever holds the lock."""
        self.lines.mend()
        for line in self.lines.after(self._size):
            try:
                name, read = str(line.pop("name")), Reading.read(line | {"device": self.device})
            except (KeyError, TypeError):
                raise ValueError(
                    f"{self.lines.path}: a line is not a reading, so it was damaged or edited; remove the file, and "
                    "what it held is measured anew"
                ) from None
            self._readings.setdefault(name, []).append(read)
        self._size = self.lines.size
