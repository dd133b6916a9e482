"""The two inputs of ETC's attention, taken from one sequence and put back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sublayer.nn.scene import Scene


@dataclass(frozen=True)
class Inputs:
    global_BJD: Float[Tensor, "B J D"]
    long_BND: Float[Tensor, "B N D"]
    real_BJ: Bool[Tensor, "#B J"]
    """False on padding, which no one sees."""
    real_BN: Bool[Tensor, "#B N"]
    own_BNJ: Bool[Tensor, "#B N J"]
    """Whether a global token stands for the segment of a long one."""
    order_BL: Int[Tensor, "B L"] | None
    """Where the tokens came from, global ones first; None: from where they are."""

    @classmethod
    def of(cls, x_BLD: Float[Tensor, "B L D"], scene: Scene, first: int) -> Inputs:
        """Global are the tokens that the stack put in front; or, if there are none, the `first` of the text."""
        L, J = x_BLD.shape[1], scene.globals or min(first, x_BLD.shape[1])
        real_BL, order_BL = scene.valid_BL, None
        if real_BL is None:
            real_BL = torch.ones(1, L, dtype=torch.bool, device=x_BLD.device)
        elif not scene.globals:
            # Padding goes to the end, so that each row begins with its global tokens.
            order_BL = (~real_BL).int().argsort(dim=1, stable=True).expand(len(x_BLD), -1)
            x_BLD = x_BLD.gather(1, order_BL[..., None].expand_as(x_BLD))
            real_BL = real_BL.gather(1, order_BL[: len(real_BL)])
        own_BNJ = torch.zeros(1, L - J, J, dtype=torch.bool, device=x_BLD.device)
        if scene.summary_BL is not None:
            own_BNJ = scene.summary_BL[:, J:, None] == torch.arange(J, device=x_BLD.device)
        return cls(x_BLD[:, :J], x_BLD[:, J:], real_BL[:, :J], real_BL[:, J:], own_BNJ, order_BL)

    def put_back(self, global_BJD: Tensor, long_BND: Tensor) -> Float[Tensor, "B L D"]:
        y_BLD = torch.cat([global_BJD, long_BND], dim=1)
        if self.order_BL is None:
            return y_BLD
        return torch.zeros_like(y_BLD).scatter(1, self.order_BL[..., None].expand_as(y_BLD), y_BLD)
