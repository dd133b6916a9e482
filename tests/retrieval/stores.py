"""Small runs, and stores made by them."""

from __future__ import annotations

import numpy as np
import torch

import sublayer
from sublayer.retrieval import Store
from sublayer.retrieval.facts import StoreFacts
from sublayer.retrieval.writer import KeyWriter
from sublayer.trained import Trained
from tests.training import tiny


def trained(book, folder, paper="gpt2", **changes) -> Trained:
    return sublayer.load(tiny.train(book, folder, paper, train__steps=1, **changes).path)


def built(run: Trained, folder, index="exact", **how):
    return sublayer.datastore(run.run.path, out=folder, index=index, **how)


def drawn(folder, count, dim=12, dtype="float16", seed=0) -> Store:
    """A store of keys drawn by the seed, a few of them twice."""
    dice = np.random.default_rng(seed)
    keys_ND = torch.from_numpy(dice.normal(size=(count, dim))).float()
    keys_ND[1:4] = keys_ND[count // 2]
    folder.mkdir()
    writer = KeyWriter(folder, dtype, np.dtype("<u1"), dim * np.dtype(dtype).itemsize)
    writer.open(None)
    writer.add(keys_ND, dice.integers(256, size=count))
    names = dict.fromkeys(("model", "run", "tokenizer", "text", "title", "split"), "none")
    sizes = {"step": 0, "vocab": 256, "start": 0, "stop": count + 1, "entries": count, "dim": dim, "batch": 1}
    how = {"key": "final", "dtype": dtype, "length": 1, "stride": 1, "carry": False, "memory": None}
    StoreFacts(**names, **sizes, **how, scale=writer.scale, crc32=writer.crc32).write(folder / "store.json")
    writer.close()
    return Store.open(folder)
