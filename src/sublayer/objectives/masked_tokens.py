"""MaskedTokens: tokens hidden in a text, predicted from those around them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sublayer.data import Batch
from sublayer.nn.model import Model
from sublayer.objectives.base import Objective, check_speaks


class MaskedTokens(Objective):
    """−log p(token | the others), for a share of the tokens (Devlin et al. 2019, section 3.1).

    Of those, 80 % are replaced by the mask, 10 % by any token, 10 % stay. The mask is the last id of the vocabulary.
    """

    class Config(Objective.Config, tag="masked_tokens"):
        extra_ids: ClassVar[int] = 1

        def check_model(self, model: Model.Config) -> None:
            super().check_model(model)
            check_speaks(model)

    def pose(self, batch: Batch) -> Batch:
        inputs_BL, chosen_BL = self.hide(batch.inputs_BL, batch.weights_BL)
        return replace(batch, inputs_BL=inputs_BL, targets_BL=batch.inputs_BL.masked_fill(~chosen_BL, -100))

    def hide(
        self, ids_BL: Int[Tensor, "B L"], weights_BL: Float[Tensor, "B L"] | None = None
    ) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"]]:
        """Ids with some hidden, and which those are: at least one a row, of those that count."""
        mask = self.model.config.vocab - 1
        draw_BL = torch.rand(ids_BL.shape, device=ids_BL.device)
        draw_BL = draw_BL if weights_BL is None else draw_BL.masked_fill(weights_BL == 0, 1.0)
        # The smallest draw of a row is hidden even if it is above the share, so that no row has a loss over nothing.
        chosen_BL = (draw_BL < self.mask) | (draw_BL == draw_BL.amin(1, keepdim=True))
        how_BL = torch.rand(ids_BL.shape, device=ids_BL.device)
        any_BL = torch.randint(mask, ids_BL.shape, device=ids_BL.device)
        hidden_BL = torch.where(how_BL < 0.8, mask, torch.where(how_BL < 0.9, any_BL, ids_BL))
        return torch.where(chosen_BL, hidden_BL, ids_BL), chosen_BL
