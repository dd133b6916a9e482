"""Sublayer: every member of the Transformer family is a word spelled in an alphabet of sublayers.

    import sublayer
    config = sublayer.config("gpt2", dim=256, layout="(sf)x3")
    model = config.build()

Names are loaded when first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sublayer.api import (
        compare,
        compare_lengths,
        config,
        datastore,
        describe,
        evaluate,
        load,
        load_plugin,
        measure,
        names,
        proxies,
        race,
        rank_table,
        report,
        reproduce,
        resume,
        search,
        supernet,
        train,
    )

_ROOMS = (
    *("nn", "papers", "data", "runs", "training", "generation", "evaluation", "measurement", "executors", "nas"),
    *("comparison", "reproduction", "reports", "retrieval", "testing", "interop"),
)

__all__ = [
    "__version__",
    "compare",
    "compare_lengths",
    "config",
    "datastore",
    "describe",
    "evaluate",
    "load",
    "load_plugin",
    "measure",
    "names",
    "proxies",
    "race",
    "rank_table",
    "report",
    "reproduce",
    "resume",
    "search",
    "supernet",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("sublayer.api"), name)
    if name in _ROOMS:
        return importlib.import_module(f"sublayer.{name}")
    raise AttributeError(f"module 'sublayer' has no attribute {name!r}")
