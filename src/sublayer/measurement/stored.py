"""What the cache holds of this device: readings of sublayers and models, and its quiet pace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sublayer.files import cache
from sublayer.measurement.device import fingerprint
from sublayer.measurement.quiet_pace import PaceFile
from sublayer.runs import Lines


def forget(device: str = "cpu", threads: int | None = None, folder: Path | str | None = None) -> int:
    """Remove the stored readings of a device, and its quiet pace; the number of readings.

    threads: those of one number of threads; None: of any.
    """
    count = 0
    for one in [threads] if threads else range(1, (os.cpu_count() or 1) + 1):
        name = fingerprint(device, one)["id"]
        for path in _tables(name, folder):
            with cache.held(path):
                count += sum(1 for _ in Lines(path))
                path.unlink(missing_ok=True)
        PaceFile(name, folder).path.unlink(missing_ok=True)
    return count


def _tables(device_id: str, folder: Path | str | None) -> Iterator[Path]:
    yield from sorted((cache.folder(folder) / "measurement").glob(f"{device_id}-*.jsonl"))
