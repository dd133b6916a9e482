"""Objective: a model with its loss on a batch. Wrappers of data parallelism go around it."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sublayer.data import Batch, Data
from sublayer.evaluation.protocol import AT_ONCE
from sublayer.evaluation.scoring import OnBatch, reading
from sublayer.nn.config import Config, ConfigError
from sublayer.nn.embedding import Head
from sublayer.nn.model import Model
from sublayer.nn.state import State
from sublayer.objectives.meter import Meter

RESERVED = frozenset({"step", "tokens", "rate", "loss", "norm", "right"})
"""Names in a line of metrics that an auxiliary loss cannot have."""
Loss = tuple[Float[Tensor, ""], State | None, dict[str, Tensor]]


class Objective(nn.Module):
    """Abstract: `total, state, named = objective(batch, state)`.

    total is the mean loss plus what parts add to it; named holds `loss` and those additions, detached. A kind overrides
    `pose` (what the model is shown and asked), `loss`, or both, and `meter` where it measures more than a loss. The
    state is detached: nothing is learned through it, and DDP looks for gradients in all that comes out.
    """

    class Config(Config, family="objective"):
        needs: ClassVar[str] = "tokens"
        """The kind of batches it learns from: what a kind of data `gives`."""
        extra_ids: ClassVar[int] = 0
        """Ids it needs beside those of the data; they are the last of the vocabulary."""
        gives_source: ClassVar[bool] = False
        """Whether it starts a model from a source sequence, where the model needs one."""
        scores_every_token: ClassVar[bool] = False
        """Whether each token of a text has a score, so that strides, other lengths and losses by position exist."""

        def build(self, model: Model, *, smoothing: float = 0.0, mask: float = 0.15) -> Objective:
            return self.owner(self, model, smoothing=smoothing, mask=mask)

        def check_model(self, model: Model.Config) -> None:
            """Raise ConfigError where a model cannot be trained so, as far as that is known without the data."""

        def check(self, model: Model.Config, data: Data) -> None:
            """Raise ConfigError where model, objective and data do not fit each other."""
            self.check_model(model)

    config: Objective.Config

    def __init__(self, config: Objective.Config, model: Model, *, smoothing: float = 0.0, mask: float = 0.15) -> None:
        """smoothing: of labels. mask: the share of tokens that are hidden, for objectives that hide some."""
        super().__init__()
        self.config, self.model, self._smoothing, self.mask = config, model, smoothing, mask

    @property
    def smoothing(self) -> float:
        """Of labels; in eval mode the plain loss is measured."""
        return self._smoothing if self.training else 0.0

    def forward(self, batch: Batch, state: State | None = None) -> Loss:
        batch, others = self.pose(batch), dict[str, Tensor]()
        h_BLD, state = self.model(batch.inputs_BL, state, batch.valid_BL, losses=others)
        loss = self.loss(h_BLD, batch)
        if taken := RESERVED & others.keys():
            raise ValueError(f"auxiliary loss {min(taken)!r}: metrics have another thing of that name; choose another")
        named = {"loss": loss.detach(), **{name: other.detach() for name, other in others.items()}}
        total = loss + sum(others.values()) if others else loss
        seen = {} if self.training else self.observe(h_BLD, batch)
        return total, None if state is None else state.detach(), {**named, **seen}

    def pose(self, batch: Batch) -> Batch:
        """The batch as the model is asked it: inputs, targets, weights."""
        return batch

    def loss(self, h_BLD: Float[Tensor, "B L D"], batch: Batch) -> Float[Tensor, ""]:
        """The mean over the targets of a posed batch, in nats."""
        return self.model.head.loss(h_BLD, batch.targets_BL, batch.weights_BL, self.smoothing, batch.valid_BL)

    def observe(self, h_BLD: Float[Tensor, "B L D"], batch: Batch) -> dict[str, Tensor]:
        """In eval mode: what the meter needs beside the losses, by name."""
        return {}

    def meter(self) -> Meter:
        return Meter()

    def score(
        self,
        data: Data,
        split: str,
        *,
        length: int,
        carry: bool | None = None,
        batch: int | None = None,
        limit: int | None = None,
        on_batch: OnBatch | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """The figures of a split, in eval mode; by default those of the meter.

        carry: whether each segment has the state that the one before it left; None: if the model has a memory for it.
        batch: rows read at once. limit: only so many tokens from the beginning. options: of a kind's own.
        """
        for name, value in options.items():
            if value is not None:
                raise ValueError(f"{name}={value}: {self.config.tag} has no such option; leave it out")
        carries = bool(self.model.config.carries if carry is None else carry) and not data.alone
        rows = batch or max(1, AT_ONCE // (data.longest(split) or length))
        meter, device = self.meter(), next(self.model.parameters()).device
        with reading(self), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # what is hidden is the same each time
            meter.read(self, data.sweep(split, rows, length, carry=carries, limit=limit), device, carries)
        return meter.figures(meter.sums, data, split)


def check_speaks(model: Model.Config) -> None:
    """The head must predict tokens."""
    head = head_of(model)
    if not head.speaks:
        raise ConfigError(
            f"head={head.tag}: plain text has no answers to learn from; use a head that predicts tokens, such as "
            "head=tied or head=masked_lm"
        )


def head_of(model: Model.Config) -> Head.Config:
    return model.head  # pyright: ignore[reportAttributeAccessIssue] (every model has one; the base declares no field)
