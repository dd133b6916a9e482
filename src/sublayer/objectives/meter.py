"""Meter: what an objective measures in a sweep over a split; sums that processes can add, and figures made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from sublayer.data import Batch, Data
from sublayer.nn.state import State


class Meter:
    """The mean loss a target. An objective that measures more overrides all three methods."""

    def __init__(self) -> None:
        self.nats, self.targets = 0.0, 0.0

    def add(self, batch: Batch, named: Mapping[str, Tensor]) -> None:
        """One batch, with what the objective returned by name in eval mode."""
        counted = float(batch.inputs_BL.numel() if batch.weights_BL is None else batch.weights_BL.sum())
        if counted:  # a mean over nothing is not a number
            self.nats += float(named["loss"]) * counted
        self.targets += counted

    @property
    def sums(self) -> dict[str, float]:
        """Of this process. Figures are ratios of sums, so processes may be averaged instead of added."""
        return {"nats": self.nats, "targets": self.targets}

    def figures(self, sums: Mapping[str, float], data: Data, split: str) -> dict[str, float]:
        """What is reported, `loss` first: training keeps the weights with the lowest."""
        return {"loss": sums["nats"] / sums["targets"]}

    @torch.no_grad()
    def read(
        self,
        objective: Callable[..., Any],
        batches: Iterable[Batch],
        device: torch.device,
        carry: bool,
        state: State | None = None,
    ) -> State | None:
        """Add batches of a sweep, from `state` on, and return the state after them.

        objective: in eval mode, wrapped or not.
        """
        for batch in batches:
            _, state, named = objective(batch.to(device), state if carry and not batch.fresh else None)
            self.add(batch, named)
        return state
