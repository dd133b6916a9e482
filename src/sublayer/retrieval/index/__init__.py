"""Ways to find the keys nearest to a query: exact, or by an index of the library faiss (extra `knn`)."""

from sublayer.retrieval.index.base import Index
from sublayer.retrieval.index.exact import Exact
from sublayer.retrieval.index.hnsw import Hnsw
from sublayer.retrieval.index.ivf import Ivf
from sublayer.retrieval.index.library import installed


def best_index() -> Index.Config:
    """Inverted lists where their library is installed, else exact search."""
    return Ivf.Config() if installed() else Exact.Config()


__all__ = ["Exact", "Hnsw", "Index", "Ivf", "best_index"]
