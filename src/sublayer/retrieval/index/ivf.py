"""Inverted lists: keys in clusters, a byte for each number; a query looks into the nearest clusters."""

from __future__ import annotations

import math
from typing import Any

from sublayer.nn.config import Count
from sublayer.retrieval.index.library import LibraryIndex
from sublayer.retrieval.vectors import VectorFile

TRAINED_ON = 64
"""Keys that a list is learned from; faiss asks for 39 at least."""
MOST_TRAINED_ON = 1 << 17
"""Keys that all lists are learned from: their memory does not grow with the store."""


class Ivf(LibraryIndex):
    """IVFn,SQ8 of faiss: n clusters by k-means, and in each the difference to its centre in 8 bits a number."""

    class Config(LibraryIndex.Config, tag="ivf"):
        lists: Count | None = None
        """Number of clusters; None: about the root of the number of keys, 1,024 for a million."""
        probes: Count = 8
        """Clusters that a query looks into: more find more, and take longer."""

        def lists_of(self, keys: VectorFile) -> int:
            most = max(1, min(keys.count, MOST_TRAINED_ON) // 39)
            return min(most, self.lists or 1 << round(math.log2(max(1, keys.count)) / 2))

        def training(self, keys: VectorFile) -> int:
            return min(MOST_TRAINED_ON, TRAINED_ON * self.lists_of(keys))

        def empty(self, faiss: Any, keys: VectorFile) -> Any:
            return faiss.index_factory(keys.dim, f"IVF{self.lists_of(keys)},SQ8")

        def set(self, index: Any) -> None:
            index.nprobe = min(self.probes, index.nlist)
