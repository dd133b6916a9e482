"""Learning: every parameter gets a gradient, from the loss of the head and from the losses that parts add."""

from __future__ import annotations

import torch
from torch import Tensor

from sublayer.nn.model import Model
from sublayer.testing.case import Case
from sublayer.testing.verdict import law, require


@law("gradients")
def gradients(case: Case) -> str | None:
    """After two optimiser steps every parameter, a memory's and a kernel's own included, has a gradient that is not all
    zero; finite in fp32 and in bf16."""
    if case.searches:
        return case.searches
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(case.seed)
        model = case.config.build().to(dtype).eval()
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for step in range(3):
            optimiser.zero_grad(set_to_none=True)
            loss(model, case, step).backward()
            for name, weight in model.named_parameters():
                require(weight.grad is not None, f"gradients: {name} gets none")
                assert weight.grad is not None
                require(bool(weight.grad.isfinite().all()), f"gradients: {name} has one that is not finite, in {dtype}")
                # A single number (ReZero's) may come to 0 in bf16 because its terms cancel to the last of few digits.
                counts = weight.numel() > 1 or dtype == torch.float32
                zeros = step == 2 and counts and not weight.grad.any()
                require(not zeros, f"gradients: {name} has all zeros after two steps, in {dtype}")
            optimiser.step()
    return None


def loss(model: Model, case: Case, step: int) -> Tensor:
    """On a batch with every token of the vocabulary in it, as input and as target. A model with a state reads it in
    four segments, so that memories are filled and read; what parts add to the loss is added."""
    ids = batch(case, step)
    vocab, rows = case.config.vocab, len(ids)
    extra: dict[str, Tensor] = {}
    target = model.head.example_target(ids)
    if not case.config.remembers:
        h_BLD = model(ids, case.begin(model, batch=rows), losses=extra)[0]
        return model.head.loss(h_BLD, target) + sum(extra.values())
    source = ids % (getattr(model.config, "source_vocab", None) or vocab) if case.config.needs_source else None
    state, hidden = model.start(source), []
    for segment in ids.chunk(4, dim=1):
        h_BLD, state = model(segment, state, losses=extra)
        hidden.append(h_BLD)
    return model.head.loss(torch.cat(hidden, dim=1), target) + sum(extra.values())


def batch(case: Case, step: int, rows: int = 4, segments: int = 4) -> Tensor:
    """Every token of the vocabulary, in rows that are long enough for all parameters to have an effect."""
    order = torch.randperm(case.config.vocab, generator=torch.Generator().manual_seed(step))
    shortest = max(stack.shortest_text for stack in case.config.stacks.values())
    each = segments * -(-max(len(order), rows * shortest) // (rows * segments))
    return order.repeat(-(-rows * each // len(order)))[: rows * each].view(rows, each)
