"""What is to be made small: a model with its loss on a batch. Wrappers of data parallelism go around it."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sublayer.data import Batch
from sublayer.nn.model import Decoder, Encoder, Model
from sublayer.nn.state import State

TAKEN = {"step", "tokens", "rate", "loss", "norm", "right"}
"""What a line of metrics holds besides auxiliary losses."""
Loss = tuple[Float[Tensor, ""], State | None, dict[str, Tensor]]


class Objective(nn.Module):
    """Abstract: `total, state, named = objective(batch, state)`; total is the mean loss and what parts add to it.

    The state is cut from the graph: nothing is learned through it, and DDP looks for gradients in all that comes out.
    """

    def __init__(self, model: Model, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model, self._smoothing = model, smoothing

    @property
    def smoothing(self) -> float:
        """Of labels; what is measured in eval mode is the plain loss."""
        return self._smoothing if self.training else 0.0

    def forward(self, batch: Batch, state: State | None = None) -> Loss:
        raise NotImplementedError

    def _total(self, loss: Tensor, others: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        if taken := TAKEN & others.keys():
            raise ValueError(f"auxiliary loss {min(taken)!r}: metrics have another thing of that name; choose another")
        named = {"loss": loss.detach(), **{name: other.detach() for name, other in others.items()}}
        return loss + sum(others.values()) if others else loss, named


class NextToken(Objective):
    """−log p(token | tokens before it)."""

    def forward(self, batch: Batch, state: State | None = None) -> Loss:
        others: dict[str, Tensor] = {}
        h_BLD, state = self.model(batch.inputs_BL, state, losses=others)
        loss = self.model.head.loss(h_BLD, batch.targets_BL, batch.weights_BL, self.smoothing)
        total, named = self._total(loss, others)
        return total, None if state is None else state.detach(), named


class Answers(Objective):
    """−log p(answer | what was read so far), of a task's answers. In eval mode, also which of them are `right`."""

    def forward(self, batch: Batch, state: State | None = None) -> Loss:
        others: dict[str, Tensor] = {}
        h_BLD, state = self.model(batch.inputs_BL, state, batch.valid_BL, losses=others)
        # A mean over no answer is no number.
        loss = 0.0 * h_BLD.sum() if not batch.share else batch.share * self._mean(h_BLD, batch)
        total, named = self._total(loss, others)
        if not self.training:
            named["right"] = self.model.head(h_BLD).argmax(-1) == batch.targets_BL
        return total, None if state is None else state.detach(), named

    def _mean(self, h_BLD: Tensor, batch: Batch) -> Tensor:
        return self.model.head.loss(h_BLD, batch.targets_BL, batch.weights_BL, self.smoothing)


class MaskedTokens(Objective):
    """−log p(token | the others), for a share of the tokens (Devlin et al. 2019, section 3.1).

    Of those, 80 % are replaced by the mask, 10 % by any token, 10 % stay. The mask is the last id of the vocabulary.
    """

    def __init__(self, model: Model, smoothing: float, share: float) -> None:
        super().__init__(model, smoothing)
        self.share = share

    def forward(self, batch: Batch, state: State | None = None) -> Loss:
        inputs_BL, chosen_BL = self.hide(batch.inputs_BL, batch.weights_BL)
        others: dict[str, Tensor] = {}
        h_BLD, _ = self.model(inputs_BL, losses=others)
        targets_BL = batch.inputs_BL.masked_fill(~chosen_BL, -100)
        loss = self.model.head.loss(h_BLD, targets_BL, batch.weights_BL, self.smoothing)
        total, named = self._total(loss, others)
        return total, None, named

    def hide(self, ids_BL: Int[Tensor, "B L"], weights_BL: Float[Tensor, "B L"] | None = None) -> tuple[Tensor, Tensor]:
        """Ids with some hidden, and which those are: at least one a row, of those that count."""
        mask = self.model.config.vocab - 1
        draw_BL = torch.rand(ids_BL.shape, device=ids_BL.device)
        draw_BL = draw_BL if weights_BL is None else draw_BL.masked_fill(weights_BL == 0, 1.0)
        chosen_BL = (draw_BL < self.share) | (draw_BL == draw_BL.amin(1, keepdim=True))
        how_BL = torch.rand(ids_BL.shape, device=ids_BL.device)
        any_BL = torch.randint(mask, ids_BL.shape, device=ids_BL.device)
        hidden_BL = torch.where(how_BL < 0.8, mask, torch.where(how_BL < 0.9, any_BL, ids_BL))
        return torch.where(chosen_BL, hidden_BL, ids_BL), chosen_BL


def objective(model: Any, smoothing: float, mask: float, *, answers: bool = False) -> Objective:
    """What a kind of model learns from plain text; or from a task, whose answers are given."""
    if answers:
        return Answers(model, smoothing)
    if isinstance(model, Decoder):
        return NextToken(model, smoothing)
    assert isinstance(model, Encoder)
    return MaskedTokens(model, smoothing, mask)
