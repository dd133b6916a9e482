"""What the indexes of faiss share: the library, threads, building piece by piece, files that are mapped."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.files.atomic import writing
from sublayer.retrieval.index.base import Index, OnProgress
from sublayer.retrieval.vectors import VectorFile

log = logging.getLogger(__name__)

BLAS_FROM = 1
"""Queries from which faiss multiplies matrices. Its own limit leaves that to small batches, which are then compared one
by one, several times slower."""


def installed() -> bool:
    """Whether the library is there."""
    try:
        return find_spec("faiss") is not None
    except ValueError:  # how a module that was made unavailable answers
        return False


def library(name: str) -> Any:
    """faiss, with as many threads as PyTorch has. name: of the index, for the message."""
    try:
        import faiss  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError(
            f"index {name}: needs faiss; install it by pip install 'sublayer[knn]', or search exactly: --index exact"
        ) from None
    faiss.omp_set_num_threads(torch.get_num_threads())
    faiss.cvar.distance_compute_blas_threshold = BLAS_FROM
    return faiss


class LibraryIndex(Index):
    """Abstract: a kind makes an empty faiss index, and says how it is searched."""

    class Config(Index.Config):
        approximate: ClassVar[bool] = True

        def check(self) -> None:
            library(self.tag)

        def empty(self, faiss: Any, keys: VectorFile) -> Any:
            """A faiss index of keys of this many, to be trained if it needs that."""
            raise NotImplementedError

        def training(self, keys: VectorFile) -> int:
            """Number of keys that it learns from."""
            return 0

        def set(self, index: Any) -> None:
            """Set what a search depends on, in an index that was read."""

        def write(self, keys: VectorFile, path: Path, on_progress: OnProgress) -> dict[str, Any]:
            faiss = library(self.tag)
            index = self.empty(faiss, keys)
            if not index.is_trained:
                index.train(keys.rows(keys.sample(self.training(keys))).numpy())
            for first, keys_PD in keys.pieces():
                index.add(keys_PD.numpy())
                on_progress(first + len(keys_PD), keys.count)
            with writing(path) as file:
                faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))
            return {"bytes": path.stat().st_size}

    config: Config

    def __init__(self, config: Config, keys: VectorFile, path: Path) -> None:
        super().__init__(config, keys, path)
        faiss = library(config.tag)
        self.index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        if self.index.ntotal != keys.count or self.index.d != keys.dim:
            raise ValueError(
                f"{path}: an index of {self.index.ntotal:,} keys of width {self.index.d}, expected {keys.count:,} of "
                f"{keys.dim}; build it again: sublayer datastore build … --index {config.tag}"
            )
        config.set(self.index)

    def search(self, queries_QD: Float[Tensor, "Q D"], count: int) -> Int[np.ndarray, "Q C"]:
        library(self.config.tag)
        queries = np.ascontiguousarray(queries_QD.numpy())
        return self.index.search(queries, min(count, self.keys.count))[1]
