"""How far an attention that approximates another is from the exact one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import torch

from sublayer.nn.linear import widen
from sublayer.nn.part import Part, Slot
from sublayer.nn.scene import Scene

TOKENS, DRAWS = 256, 2


@torch.no_grad()
def approximation_errors(config: Part.Config, dim: int, deviations: Sequence[float]) -> list[float]:
    """|y − y*|/|y*|, y* by `Part.exact`, on inputs of each deviation: the mean of several draws. Empty where nothing is
    approximated.

    Inputs are normal, and so are queries, keys and values of the new part, whose linear maps have weights of variance
    1/inputs.
    """
    found: list[list[float]] = []
    with torch.random.fork_rng(devices=()):
        for seed in range(DRAWS):
            torch.manual_seed(seed)
            part = config.build(Slot(dim)).eval()
            widen(part)
            x_1LD = torch.randn(1, TOKENS, dim)
            errors = [_error(part, deviation * x_1LD) for deviation in deviations]
            if None in errors:
                return []
            found.append([error for error in errors if error is not None])
    return [fmean(errors) for errors in zip(*found, strict=True)]


def _error(part: Part, x_BLD: torch.Tensor) -> float | None:
    scene = Scene(torch.arange(x_BLD.shape[1])[None])
    exact_BLD = part.exact(x_BLD, scene)
    return None if exact_BLD is None else float((part(x_BLD, scene)[0] - exact_BLD).norm() / exact_BLD.norm())
