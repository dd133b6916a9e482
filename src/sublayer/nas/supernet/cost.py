"""What a step of the search costs beside a step of the base, measured in turn on the same batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from sublayer.nas.supernet import draw
from sublayer.nas.supernet.searcher import ARCHITECTURE
from sublayer.nas.supernet.stack import Supernet, over
from sublayer.nn.model import Model
from sublayer.nn.model.single import SingleStack
from sublayer.training.optimizer import AdamW

KINDS = ("base", "weights", "architecture", "one path")


@dataclass(frozen=True)
class StepCost:
    """Seconds of one training step, and the ratio to the base's: median and quartiles of those within a turn."""

    seconds: dict[str, float]
    ratios: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]
    repeats: int

    def search(self, share: float = 0.2) -> float:
        """Of a whole search, where `share` of the steps are the architecture's."""
        return (1 - share) * self.ratios["weights"] + share * self.ratios["architecture"]

    def dump(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return " · ".join(f"{kind} {1000 * self.seconds[kind]:.1f} ms ({self._ratio(kind)})" for kind in KINDS)

    def _ratio(self, kind: str) -> str:
        return f"{self.ratios[kind]:.2f}×, {self.low[kind]:.2f}–{self.high[kind]:.2f}"


def compare(
    base: SingleStack.Config,
    letters: str = "sf-",
    batch: int = 8,
    length: int = 128,
    repeats: int = 9,
    clock: Callable[[], float] = time.perf_counter,
) -> StepCost:
    """The base, the supernet in both phases, and a single path, one step of each in every turn; two turns warm up."""
    torch.manual_seed(0)
    steps = {kind: _stepper(base, letters, kind) for kind in KINDS}
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(repeats + 2):
        ids = torch.randint(base.vocab, (batch, length + 1))
        for kind, step in steps.items():
            begun = clock()
            step(ids)
            if turn >= 2:
                took[kind].append(clock() - begun)
    ratios = {kind: sorted(one / first for one, first in zip(took[kind], took["base"], strict=True)) for kind in KINDS}
    quarter = repeats // 4
    return StepCost(
        {kind: median(times) for kind, times in took.items()},
        {kind: median(some) for kind, some in ratios.items()},
        {kind: some[quarter] for kind, some in ratios.items()},
        {kind: some[-1 - quarter] for kind, some in ratios.items()},
        repeats,
    )


def _stepper(base: SingleStack.Config, letters: str, kind: str) -> Callable[[Tensor], None]:
    model: Model = (base if kind == "base" else over(base, letters)).build()
    stack, state = model.stack, None
    if isinstance(stack, Supernet):
        stack.draw = partial(draw.path if kind == "one path" else draw.shares, temperature=5.0)
        stack.remembers = base.carries
        for name, parameter in model.named_parameters():
            parameter.requires_grad_((name == ARCHITECTURE) == (kind == "architecture"))
    optimizer = AdamW.Config().build(model.parameters(), 1e-3)

    def step(ids: Tensor) -> None:
        nonlocal state
        h_BLD, after = model(ids[:, :-1], state)
        model.head.loss(h_BLD, ids[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        state = after.detach() if base.carries else None

    return step
