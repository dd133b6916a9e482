"""A graph of neighbours: quick to search, slow to build, and held in memory as a whole."""

from __future__ import annotations

from typing import Any

from sublayer.nn.config import Count
from sublayer.retrieval.index.library import LibraryIndex
from sublayer.retrieval.vectors import VectorFile


class Hnsw(LibraryIndex):
    """HNSWn,Flat of faiss (Malkov & Yashunin 2016): a walk along the edges of a graph, towards the query."""

    class Config(LibraryIndex.Config, tag="hnsw"):
        edges: Count = 32
        """Neighbours that each key is joined to."""
        width: Count = 64
        """Candidates that a walk holds: more find more, and take longer."""

        def empty(self, faiss: Any, keys: VectorFile) -> Any:
            return faiss.index_factory(keys.dim, f"HNSW{self.edges},Flat")

        def set(self, index: Any) -> None:
            index.hnsw.efSearch = self.width
