"""Models that write, small, and what they would write if everything were computed anew for each id."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import sublayer
from sublayer.nn.model import EncoderDecoder, Model
from sublayer.testing import Trial, small

WRITERS = [name for name in sublayer.names() if sublayer.config(name).remembers]
SOURCE = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8]]


def writer(paper: str, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: object) -> Model:
    config = small(sublayer.config(paper))
    return Trial(config.but(**changes) if changes else config, seed).model(dtype)


def source_of(model: Model, rows: int) -> dict[str, list[list[int]]]:
    return {"source": SOURCE[:rows]} if isinstance(model, EncoderDecoder) else {}


@torch.no_grad()
def scores_after(model: Model, prompt: Sequence[int], written: Sequence[int], source: Sequence[int] | None = None):
    """Scores of the next id, by one pass over everything; cut as generation cuts, where that matters."""
    ids = torch.tensor([[*prompt, *written]])
    state = model.start(torch.tensor([source])) if isinstance(model, EncoderDecoder) else None
    splits = any(part.splits for stack in model.config.stacks.values() for part in stack.parts)
    segments = {"segments": (len(prompt), *[1] * len(written))} if splits else {}
    h_BLD, _ = model(ids, state, **segments)
    return model.head(h_BLD[:, -1])[0]


def recomputed(model: Model, prompt: Sequence[int], tokens: int, source: Sequence[int] | None = None) -> list[int]:
    written: list[int] = []
    for _ in range(tokens):
        written.append(int(scores_after(model, prompt, written, source).argmax()))
    return written
