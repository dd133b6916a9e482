"""The latency of one sublayer of each letter, from latencies of whole models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sublayer.measurement import Predictor, Setting
from sublayer.nas.supernet.config import SearchConfig
from sublayer.nas.supernet.folder import REQUEST, SupernetFolder
from sublayer.nas.supernet.stack import IDENTITY, over
from sublayer.nn.model import Model
from sublayer.training import TrainConfig

DEEP, SHALLOW = 4, 2
"""Sublayers of the two models whose difference in latency is two sublayers'."""


def latencies(base: Model.Config, letters: str, latency: Callable[[Model.Config], float]) -> dict[str, float]:
    """Letter → seconds: the difference of two stacks of that letter. Embedding and head cancel, so they are small."""
    small = base.but(embedding="token", head="tied").but(vocab=256)
    found = {}
    for letter in letters.replace(IDENTITY, ""):
        deep, shallow = (latency(small.but(layout=f"({letter})x{n}")) for n in (DEEP, SHALLOW))
        found[letter] = max(0.0, (deep - shallow) / (DEEP - SHALLOW))
    return found


def find_latencies(
    base: Model.Config, changes: Mapping[str, Any], config: SearchConfig, train: TrainConfig, folder: Path
) -> dict[str, float]:
    """Those that the search in this folder began with, or measured: one row of a training segment."""
    if (folder / REQUEST).exists():
        return SupernetFolder(folder).search.latencies
    made = base.but({key: value for key, value in changes.items() if key != "vocab"})
    over(made, config.letters)  # refuses impossible models and letters before anything is measured
    task = "segment" if made.writes else "prefill"
    with Predictor(Setting(task=task, length=train.length)) as predictor:
        return latencies(made, config.letters, lambda one: predictor.predict(one).latency)
