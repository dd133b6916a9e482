"""Store: pairs of a context's key and the token after it, opened and checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.data.mapped import dtype_for, map_file
from sublayer.data.tokenizer import Tokenizer
from sublayer.nn.model import Model
from sublayer.retrieval import facts
from sublayer.retrieval.facts import IndexFacts, StoreFacts
from sublayer.retrieval.identity import model_hash
from sublayer.retrieval.index import Exact, Index
from sublayer.retrieval.vectors import VectorFile, crc32
from sublayer.runs.wording import command

AT_ONCE = 1 << 22
"""Numbers of keys that are subtracted from queries at once."""


@dataclass(frozen=True)
class Store:
    path: Path
    facts: StoreFacts
    index_facts: IndexFacts

    @classmethod
    def open(cls, path: Path | str) -> Store:
        """The store in a folder, each of its files checked against its checksum."""
        folder = Path(path)
        if not folder.is_dir():
            raise ValueError(
                f"{path}: there is no such folder, expected a datastore; sublayer datastore build makes one"
            )
        if not (folder / facts.FACTS).is_file():
            unfinished = (folder / facts.REQUEST).is_file()
            why = "not finished; repeat the command that builds it" if unfinished else "not a datastore"
            raise ValueError(f"{path}: {why}, it has no {facts.FACTS}")
        found = StoreFacts.read(folder / facts.FACTS)
        store = cls(folder, found, _read_index(folder))
        store.verify()
        return store

    def verify(self) -> None:
        """Raise ValueError where a file is not as it was written."""
        sizes = {facts.KEYS: self.keys.row_bytes, facts.TOKENS: self.token_dtype.itemsize}
        for name, size in sizes.items():
            self._verify(name, self.facts.crc32[name], size * len(self))
        if self.index_facts.crc32 is not None:
            self._verify(facts.INDEX, self.index_facts.crc32)

    def _verify(self, name: str, checksum: int, size: int | None = None) -> None:
        path = self.path / name
        if not path.is_file():
            why = "is missing"
        elif size is not None and path.stat().st_size != size:
            why = f"has {path.stat().st_size:,} bytes, expected {size:,}"
        else:
            why = "" if crc32(path) == checksum else "does not match its checksum"
        if why:
            again = command("datastore", "build", self.facts.run, "--out", "NEW")
            raise ValueError(f"{path}: {why}; it was damaged, put it back or build the store again: {again}")

    def __len__(self) -> int:
        return self.facts.entries

    @property
    def keys(self) -> VectorFile:
        return VectorFile(self.path / facts.KEYS, self.facts.entries, self.facts.dim, self.facts.dtype)

    @property
    def token_dtype(self) -> np.dtype:
        """As small as the vocabulary allows, and unsigned: 16 bits hold 65,536 tokens, 32 the larger vocabularies."""
        return dtype_for(self.facts.vocab)

    @cached_property
    def tokens(self) -> Int[np.ndarray, " N"]:
        """The token after each context; mapped, not read."""
        return map_file(self.path / facts.TOKENS, self.token_dtype)

    @cached_property
    def index(self) -> Index:
        config = Index.Config.parse(self.index_facts.config, f"{self.path / facts.INDEX_FACTS}: config")
        return config.open(self.keys, self.path / facts.INDEX)

    @property
    def recall(self) -> dict[int, float] | None:
        """Which share of so many nearest neighbours a search finds; None: all, the search is exact."""
        return self.index_facts.recall

    def check(self, model: Model, tokenizer: Tokenizer) -> None:
        """Raise ValueError where it was built by another model, or in the tokens of another tokenizer."""
        built = f"{self.path}: was built by {self.facts.run} at step {self.facts.step}"
        if self.facts.tokenizer != tokenizer.hash:
            raise ValueError(
                f"{built}, whose tokenizer is another; build a store by this run: sublayer datastore build"
            )
        if self.facts.model != model_hash(model):
            raise ValueError(
                f"{built}, whose config or weights are others, and keys of two models cannot be compared; use that run "
                "and step, or build a store by this one: sublayer datastore build"
            )

    def distances(self, queries_QD: Float[Tensor, "Q D"], ids_QC: Int[np.ndarray, "Q C"]) -> Float[np.ndarray, "Q C"]:
        """Squared distances to entries, from the keys themselves, summed in float64; inf where the number is −1."""
        rows = max(1, AT_ONCE // max(1, ids_QC.shape[1] * self.facts.dim))
        found = [
            self._distances(queries_QD[start : start + rows], ids_QC[start : start + rows])
            for start in range(0, len(ids_QC), rows)
        ]
        return np.concatenate(found) if found else np.empty(ids_QC.shape)

    def _distances(self, queries_QD: Tensor, ids_QC: np.ndarray) -> np.ndarray:
        known_QC = ids_QC >= 0
        entries, where = np.unique(ids_QC[known_QC], return_inverse=True)
        keys_ND = self.keys.rows(entries).double() / self.facts.scale
        row_N = torch.from_numpy(np.nonzero(known_QC)[0])
        apart_ND = queries_QD.double()[row_N] - keys_ND[torch.from_numpy(where)]
        found = np.full(ids_QC.shape, np.inf)
        found[known_QC] = torch.linalg.vecdot(apart_ND, apart_ND).numpy()
        return found


def _read_index(folder: Path) -> IndexFacts:
    """Without a file, the search is exact."""
    path = folder / facts.INDEX_FACTS
    return IndexFacts.read(path) if path.exists() else IndexFacts(config=Exact.Config().dump())
