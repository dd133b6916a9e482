"""The oracle: fast paths against the slow, obvious twin of each attention."""

from __future__ import annotations

import torch
from torch import Tensor

from sublayer.nn.model import Model
from sublayer.nn.part import Part
from sublayer.testing.case import Case, by_reference
from sublayer.testing.verdict import TILES, law, same


@law("oracle", long=TILES)
def oracle(case: Case) -> str | None:
    """Attention equals its slow twin in values and gradients, with a memory and with padding."""
    model = case.model()
    alone = twinless(case, model)
    if alone:
        return alone
    if not any(case.attentions()):
        return "no part attends"
    fast = run(case, model)
    with by_reference():
        slow = run(case, model)
    for name, here in fast.items():
        same(here, slow[name], 1e-10, f"oracle: {name}")
    return None


def twinless(case: Case, model: Model) -> str | None:
    """The first attending part that has nothing to be compared with, as a reason."""
    for letter, part, stack in case.attentions():
        shared = stack.position.build(case.config.dim, stack.head_dim(case.config.dim))
        if part.build(stack.slot(case.config.dim, shared)).twin is None:
            return f"{letter} ({part.tag}) attends and has no slow twin"
    for name, module in model.named_modules():
        config = getattr(module, "config", None)
        attends = isinstance(module, Part) and isinstance(config, Part.Config) and config.attends
        if attends and module.twin is None:
            return f"{name} ({type(module).__name__}) attends and has no slow twin"
    return None


def run(case: Case, model: Model) -> dict[str, Tensor]:
    """Hidden vectors of a pass, of a padded one and of one with a memory, and the gradients of every parameter."""
    batch = 1 if case.long else 2
    rows, ids = range(batch), case.ids(batch=batch)
    valid = torch.ones_like(ids, dtype=torch.bool)
    valid[0, : case.length // 3] = False
    weights = dict(model.named_parameters())
    h_BLD, state = model(ids, case.begin(model, rows))
    found = {"one pass": h_BLD}
    if not case.long:
        found["padded"] = model(ids, case.begin(model, rows), valid)[0] * valid[..., None]
    if state is not None:
        found["with memory"] = model(case.ids(5, batch, key=4), state)[0]
    losses = [(h * torch.linspace(-1, 1, h.shape[-1], dtype=h.dtype)).sum() for h in found.values()]
    slopes = torch.autograd.grad(losses, list(weights.values()), allow_unused=True)
    slopes = [torch.zeros(1) if slope is None else slope for slope in slopes]
    return found | dict(zip(weights, slopes, strict=True))
