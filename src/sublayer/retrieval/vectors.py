"""VectorFile: rows of numbers in a file, as many as fit on a disk.

It is never mapped as a whole: pieces are read into one buffer, and single rows through a window of the file that is
mapped for a moment. So neither the memory in use nor the address space grows with the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

PIECE = 1 << 14
"""Rows read at once, where nothing else is asked for."""
WINDOW = 1 << 26
"""Bytes mapped at once."""
READ_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class VectorFile:
    path: Path
    count: int
    dim: int
    dtype: str
    """float16 or float32."""

    @property
    def row_bytes(self) -> int:
        return self.dim * np.dtype(self.dtype).itemsize

    def pieces(self, rows: int = PIECE, first: int = 0) -> Iterator[tuple[int, Float[Tensor, "C D"]]]:
        """The number of the first row, and so many rows in fp32; what is yielded lives until the next piece."""
        read = torch.empty(rows, self.dim, dtype=getattr(torch, self.dtype))
        wide = read if read.dtype == torch.float32 else torch.empty(rows, self.dim)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(first * self.row_bytes)
            for start in range(first, self.count, rows):
                count = min(rows, self.count - start)
                _fill(file, read[:count].view(torch.uint8).numpy().reshape(-1), self.path)
                if wide is not read:
                    wide[:count].copy_(read[:count])
                yield start, wide[:count]

    def rows(self, ids_N: Int[np.ndarray, " N"]) -> Float[Tensor, "N D"]:
        """Single rows in fp32; the order of a file is the quickest."""
        found = torch.empty(len(ids_N), self.dim)
        per_window = max(1, WINDOW // self.row_bytes)
        window_N = ids_N // per_window
        for window in np.unique(window_N):
            first = int(window) * per_window
            shape = (min(per_window, self.count - first), self.dim)
            part = np.memmap(self.path, np.dtype(self.dtype), "r", first * self.row_bytes, shape)
            chosen = np.flatnonzero(window_N == window)
            found[torch.from_numpy(chosen)] = torch.from_numpy(part[ids_N[chosen] - first]).float()
        return found

    def sample(self, count: int, seed: int = 0) -> Int[np.ndarray, " N"]:
        """Numbers of some rows drawn by the seed, in the order of the file; all, where there are no more."""
        if count >= self.count:
            return np.arange(self.count)
        return np.sort(np.random.default_rng(seed).choice(self.count, count, replace=False))


def crc32(path: Path) -> int:
    """Of a whole file, read in pieces."""
    checksum, buffer = 0, bytearray(READ_AT_ONCE)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            checksum = zlib.crc32(memoryview(buffer)[:count], checksum)
    return checksum


def _fill(file: FileIO, bytes_N: np.ndarray, path: Path) -> None:
    done = 0
    while done < len(bytes_N):
        count = file.readinto(bytes_N[done:])  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
        if not count:
            raise ValueError(f"{path}: ends too soon; it was damaged, build the store again")
        done += count
