"""A base, a text and a search small enough to try in a moment."""

from pathlib import Path
from typing import Any

import sublayer
from sublayer.data import DataConfig
from sublayer.nas.supernet import SearchConfig, search
from sublayer.training import TrainConfig

STILL = {"s.dropout": 0.0, "embedding.dropout": 0.0, "residual.dropout": 0.0}
OWN: dict[str, dict[str, Any]] = {"transformer-xl": {"s.memory.length": 8}, "gtrxl": {"s.memory.length": 8}}
TRAIN = TrainConfig(steps=2, batch=2, length=16, warmup=2)


def base(paper: str = "gpt2", **more: Any) -> Any:
    """Without dropout, on 61 tokens."""
    sizes = {"dim": 16, "layout": "(sf)x2", "s.heads": 2, "f.inner": 16, **STILL, **OWN.get(paper, {}), **more}
    ends = {"embedding": "token", "head": "tied"}
    return sublayer.config(paper).but(ends).but({"vocab": 61, **sizes})


def run(book: Path, out: Path, paper: str = "gpt2", **more: Any) -> dict[str, Any]:
    """A search on the book; options of `search` and fields of its config alike."""
    options = {
        name: more.pop(name)
        for name in ("seeds", "par", "retrained", "sublayers", "changes", "reporter")
        if name in more
    }
    train = more.pop("train", TRAIN)
    asked = {"seeds": (0,), "retrained": False, "par": (), **options}
    config = SearchConfig(**{"steps": 20, "log_every": 4, "save_every": 5, **more})
    return search(base(paper), DataConfig.guess(str(book)), out, config, train, **asked)
