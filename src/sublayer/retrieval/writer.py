"""KeyWriter: the two growing files of a store, with what is needed to go on with them."""

from __future__ import annotations

import math
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sublayer.retrieval.facts import KEYS, TOKENS

ROOM = 8
"""The first keys are scaled to below 2^8, so that later ones may be 255 times as large in half precision."""
AGAIN = "free some space there, then repeat the command: it goes on"


class KeyWriter:
    """Keys are stored times a power of two, found from the first of them: nothing is rounded by it, and half precision
    holds keys of any size."""

    def __init__(self, folder: Path, dtype: str, token_dtype: np.dtype, row_bytes: int) -> None:
        self.folder, self.dtype, self.token_dtype = folder, getattr(torch, dtype), token_dtype
        self.sizes = {KEYS: row_bytes, TOKENS: token_dtype.itemsize}
        self.entries, self.scale = 0, None
        self.crc32 = dict.fromkeys(self.sizes, 0)
        self.files = {}

    scale: float | None

    def open(self, notes: dict[str, Any] | None) -> None:
        """At the beginning, or where the notes of a checkpoint say; what was written after that is cut off."""
        if notes is not None:
            self.entries, self.scale, self.crc32 = notes["entries"], notes["scale"], dict(notes["crc32"])
        for name, size in self.sizes.items():
            path = self.folder / name
            try:
                self.files[name] = open(path, "r+b" if path.exists() else "w+b", buffering=0)  # noqa: SIM115
                self.files[name].truncate(self.entries * size)
                self.files[name].seek(self.entries * size)
            except OSError as error:
                raise ValueError(f"{path}: cannot be written: {error.strerror or error}; {AGAIN}") from error

    def notes(self) -> dict[str, Any]:
        """What was written so far, once it is on the disk."""
        for name, file in self.files.items():
            try:
                os.fsync(file.fileno())
            except OSError as error:
                raise ValueError(f"{self.folder / name}: cannot be written: {error.strerror}; {AGAIN}") from error
        return {"entries": self.entries, "scale": self.scale, "crc32": dict(self.crc32)}

    def add(self, keys_ND: Float[Tensor, "N D"], tokens_N: np.ndarray) -> None:
        keys_ND = keys_ND.detach().cpu().float()
        if self.scale is None:
            self.scale = self._scale(keys_ND)
        stored_ND = (keys_ND * self.scale).to(self.dtype)
        if not stored_ND.isfinite().all():
            raise ValueError(self._refusal(keys_ND))
        self._write(KEYS, stored_ND.contiguous().view(torch.uint8).numpy())
        self._write(TOKENS, np.ascontiguousarray(tokens_N, self.token_dtype).view(np.uint8))
        self.entries += len(tokens_N)

    def close(self) -> None:
        for file in self.files.values():
            file.close()

    def _scale(self, keys_ND: Tensor) -> float:
        most = float(keys_ND.abs().amax())
        if self.dtype != torch.float16 or not (0 < most < math.inf):
            return 1.0
        return 2.0 ** (ROOM - math.ceil(math.log2(most)))

    def _refusal(self, keys_ND: Tensor) -> str:
        if not keys_ND.isfinite().all():
            return "keys: not all are numbers (inf or NaN); the model's weights are damaged, use an earlier checkpoint"
        return (
            f"keys: values up to {float(keys_ND.abs().amax()):.3g} do not fit into half precision beside those before, "
            "which are much smaller; build with --dtype float32, in another folder"
        )

    def _write(self, name: str, data: np.ndarray) -> None:
        view = data.reshape(-1).data
        self.crc32[name] = zlib.crc32(view, self.crc32[name])
        try:
            while view:
                view = view[self.files[name].write(view) :]
        except OSError as error:
            raise ValueError(f"{self.folder / name}: cannot be written: {error.strerror or error}; {AGAIN}") from error
