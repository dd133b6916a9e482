"""Models that write, small, and what they would write: by the native step and without, or all computed anew."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

import sublayer
from sublayer.generation.native import NativeReader
from sublayer.generation.reader import StateReader, read_prompts
from sublayer.generation.request import GenerationRequest
from sublayer.nn.model import EncoderDecoder, Model
from sublayer.testing import Case, small
from sublayer.testing.case import same

WRITERS = [name for name in sublayer.names() if sublayer.config(name).remembers]
SOURCE = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8]]


def writer(paper: str, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: object) -> Model:
    config = small(sublayer.config(paper))
    return Case(config.but(**changes) if changes else config, seed).model(dtype)


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


@torch.inference_mode()
def side_by_side(model: Model, prompts: list[list[int]], dice: random.Random, steps: int = 18) -> None:
    """The native step against the model: within 1e-5 of the scores' size, with rows that come and go."""
    fast, slow = (read_prompts(GenerationRequest.of(model, prompts, steps), native) for native in (True, False))
    assert isinstance(fast, NativeReader)
    assert isinstance(slow, StateReader)
    for n in range(steps):
        same(fast.scores_BV, slow.scores_BV, 1e-5, f"step {n}")
        if n in (4, 9):  # rows in another number and order
            rows_B = torch.tensor([dice.randrange(len(fast.scores_BV)) for _ in range(dice.choice([1, 4, 11]))])
            fast.select(rows_B)
            slow.select(rows_B)
        ids_B = (slow.scores_BV.argmax(1) + n) % model.config.vocab
        fast.read(ids_B)
        slow.read(ids_B)
