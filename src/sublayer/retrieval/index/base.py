"""Index: how the keys nearest to a query are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.nn.config import Config
from sublayer.retrieval.vectors import VectorFile

OnProgress = Callable[[int, int], object]
"""Called with how much is done, and of how much."""


class Index:
    """Abstract: `ids_QC = index.search(queries_QD, count)`.

    Distances are squared L2. What is returned are candidates: their exact distances are computed from the keys
    themselves (`search.py`), so an index may round as it likes.
    """

    class Config(Config, family="index"):
        approximate: ClassVar[bool] = False
        """Whether it may miss neighbours; then its recall is measured when it is built."""

        def check(self) -> None:
            """Raise ValueError where what it needs is not installed."""

        def write(self, keys: VectorFile, path: Path, on_progress: OnProgress) -> dict[str, Any]:
            """Build it into the file `path`, where it needs one; what is worth knowing about it, as plain JSON."""
            return {}

        def open(self, keys: VectorFile, path: Path) -> Index:
            return self.owner(self, keys, path)

    def __init__(self, config: Any, keys: VectorFile, path: Path) -> None:
        """path: of the file that was written."""
        self.config, self.keys, self.path = config, keys, path

    def search(self, queries_QD: Float[Tensor, "Q D"], count: int) -> Int[np.ndarray, "Q C"]:
        """Numbers of about the nearest `count` keys of each query, in any order; −1 where fewer were found."""
        raise NotImplementedError
