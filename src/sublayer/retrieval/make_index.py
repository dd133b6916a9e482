"""Making the index of a store whose keys are written, and measuring what it misses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from sublayer.retrieval import facts
from sublayer.retrieval.facts import IndexFacts, StoreFacts
from sublayer.retrieval.index import Exact, Index
from sublayer.retrieval.neighbours import search
from sublayer.retrieval.store import Store
from sublayer.retrieval.vectors import crc32

RECALL_OF = (16, 1024)
"""Numbers of neighbours of which the recall is measured."""
SAMPLE = 256
"""Keys that serve as queries."""
OnPhase = Callable[[str, int, int], object]
"""Called with what is done now, how far it is, and how far it goes."""


def make_index(folder: Path, config: Index.Config, on_phase: OnPhase) -> None:
    """Give a store the index that is asked for, unless it has it."""
    found, file, note = StoreFacts.read(folder / facts.FACTS), folder / facts.INDEX, folder / facts.INDEX_FACTS
    store = Store(folder, found, IndexFacts(config=Exact.Config().dump()))
    if _there(folder, config):
        return
    note.unlink(missing_ok=True)  # from here on until it is written again, the search is exact
    file.unlink(missing_ok=True)
    about = config.write(store.keys, file, lambda done, total: on_phase("building the index", done, total))
    made = IndexFacts(config=config.dump(), about=about, crc32=crc32(file) if file.exists() else None)
    if config.approximate:
        on_phase("measuring the recall", 0, 0)
        made = made.model_copy(update={"recall": recall(store, Store(folder, found, made))})
    made.write(note)


def recall(exact: Store, approximate: Store) -> dict[int, float]:
    """Which share of the nearest neighbours of some keys is found, the keys themselves left out."""
    ids_Q = exact.keys.sample(SAMPLE)
    queries_QD = exact.keys.rows(ids_Q) / exact.facts.scale
    found = {}
    for count in sorted({min(of, len(exact) - 1) for of in RECALL_OF} - {0}):
        there, here = (search([store], queries_QD, count, [ids_Q]) for store in (exact, approximate))
        farthest_Q1 = there.distance_QK[:, -1:]  # of equally near neighbours, any counts as found
        found[count] = float((here.distance_QK <= farthest_Q1).sum() / np.isfinite(there.distance_QK).sum())
    return found


def _there(folder: Path, config: Index.Config) -> bool:
    """Whether the store has this index, and it is whole."""
    note, file = folder / facts.INDEX_FACTS, folder / facts.INDEX
    try:
        known = IndexFacts.read(note)
        whole = known.crc32 is None or crc32(file) == known.crc32
    except (ValueError, OSError):
        return False
    return whole and known.config == config.dump()
