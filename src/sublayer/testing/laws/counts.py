"""Cost: what a config counts is what the model has and does."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from sublayer.nn.model import Model
from sublayer.testing.case import Case
from sublayer.testing.verdict import PIECES, law, require


@law("cost = count", long=PIECES)
def cost_is_count(case: Case) -> str | None:
    """Parameters by the config's closed form, exactly; FLOPs within 1 % of the counter on the meta device."""
    if case.long and not case.by_bands:
        return "no pattern is computed along bands"
    with torch.device("meta"):
        model = case.config.build().eval()
    counted = sum(weight.numel() for weight in model.parameters())
    cost = case.config.cost()
    require(cost.params == counted, f"cost: {cost.params} parameters by the config, {counted} in the model")
    if case.searches:
        return case.searches
    for length, memory in ((case.length, 0),) if case.long else ((case.length, 0), (3, 5), (1, 4)):
        if memory and not case.config.remembers:
            continue
        work = case.config.cost(length, memory).flops
        expected = work.embedding + work.stack + (0 if model.config.head.flops_depend_on_data else work.head)
        measured = count_flops(model, length, memory)
        require(
            abs(measured - expected) <= 0.01 * measured,
            f"cost: {expected} FLOPs by the config, {measured} by the counter ({length} new, {memory} remembered)",
        )
    return None


def count_flops(model: Model, length: int, memory: int) -> int:
    """Of one pass with its head, on meta tensors; work of a head that depends on the data is left out."""
    source = torch.zeros(1, length, dtype=torch.long, device="meta") if model.config.needs_source else None
    with torch.no_grad():
        state = None
        if memory:
            past = torch.zeros(1, memory, dtype=torch.long, device="meta")
            state = model(past, model.start(source))[1]
        with FlopCounterMode(display=False) as counter:
            state = model.start(source) if state is None else state
            ids = torch.zeros(1, length, dtype=torch.long, device="meta")
            h_BLD = model(ids, state)[0]
            if not model.config.head.flops_depend_on_data:
                model.head(h_BLD)
    return counter.get_total_flops()
