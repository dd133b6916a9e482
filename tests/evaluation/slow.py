"""Scores as nobody would compute them: one target at a time, each from the tokens before it alone."""

from __future__ import annotations

from collections.abc import Callable

import torch

import sublayer
from sublayer.nn.model import Decoder
from sublayer.testing import Case, small

PAPERS = ["gpt2", "llama", "alibi", "transformer-xl"]


def model_of(paper: str, **changes: object) -> Decoder:
    """Small, lively, in float64."""
    config = small(sublayer.config(paper))
    model = Case(config.but(changes) if changes else config, seed=1).model()
    assert isinstance(model, Decoder)
    return model


def ids_of(model: Decoder, count: int):
    return torch.randint(model.config.vocab, (count,), generator=torch.Generator().manual_seed(3)).numpy()


def window_start(length: int, stride: int) -> Callable[[int], int]:
    """Where the window begins that scores a target; targets count from 1, as the token they are."""
    return lambda target: 0 if target <= length else -(-(target - length) // stride) * stride


@torch.no_grad()
def nats_of(model: Decoder, ids, start_of: Callable[[int], int]) -> list[float]:
    """−ln p of every token but the first, given those from `start_of` it on."""
    found = []
    for target in range(1, len(ids)):
        context = torch.from_numpy(ids[start_of(target) : target])[None]
        h_BLD, _ = model(context)
        found.append(-float(model.head.log_probs(h_BLD)[0, -1, int(ids[target])]))
    return found


@torch.no_grad()
def nats_in_one_pass(model: Decoder, ids, **options: object) -> float:
    x = torch.from_numpy(ids)
    h_BLD, _ = model(x[None, :-1], **options)
    return -float(model.head.log_probs(h_BLD)[0].gather(1, x[1:, None]).sum())
