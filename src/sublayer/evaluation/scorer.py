"""Scorer: from the hidden states of a pass to the nats of its targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from sublayer.evaluation.passes import Rows
from sublayer.nn.model import Model

Nats = Callable[[Tensor, Rows], Tensor]
"""h_BSD of the tokens before the targets, and the rows → nats_BS, 0 where there is no target."""


class Scorer:
    """By the model's own head; another kind may know more than the model (`retrieval`)."""

    @contextmanager
    def on(self, model: Model) -> Iterator[Nats]:
        """While this model reads. The rows are on the CPU, the hidden states where the model is."""
        yield lambda h_BSD, rows: model.head.nats(h_BSD, rows.targets_BS.to(h_BSD.device))
