"""How far an attention that approximates another is from the exact one."""

from __future__ import annotations

from statistics import fmean

import torch

from sublayer.nn.linear import widen
from sublayer.nn.part import Part, Slot
from sublayer.nn.scene import Scene

TOKENS, DRAWS = 256, 3


@torch.no_grad()
def approximation_error(config: Part.Config, dim: int, deviation: float = 1.0) -> float | None:
    """|y − y*|/|y*|, y* by `Part.exact`, the mean of several draws; None where nothing is approximated.

    Inputs are normal, of this deviation, and so are queries, keys and values of the new part, whose linear maps have
    weights of variance 1/inputs.
    """
    found = []
    with torch.random.fork_rng(devices=()):
        for seed in range(DRAWS):
            torch.manual_seed(seed)
            part = config.build(Slot(dim)).eval()
            widen(part)
            x_1LD, scene = deviation * torch.randn(1, TOKENS, dim), Scene(torch.arange(TOKENS)[None])
            exact_1LD = part.exact(x_1LD, scene)
            if exact_1LD is None:
                return None
            found.append(float((part(x_1LD, scene)[0] - exact_1LD).norm() / exact_1LD.norm()))
    return fmean(found)
