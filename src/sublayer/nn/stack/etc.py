"""ETC's stack: global tokens go beside the text through all sublayers, one for each of its segments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.config import Count
from sublayer.nn.linear import DEVIATION
from sublayer.nn.part import Work
from sublayer.nn.scene import Scene
from sublayer.nn.stack.plain import Plain


@dataclass(frozen=True)
class Segments:
    """A text cut into segments of so many real tokens."""

    of_BL: Int[Tensor, "#B L"]
    """The segment of each token; −1 for padding."""
    real_BJ: Bool[Tensor, "#B J"]
    """Which segments each row has."""

    @classmethod
    def cut(cls, scene: Scene, size: int) -> Segments:
        count, device = -(-scene.length // size), scene.i_BL.device
        if scene.valid_BL is None:
            of_1L = torch.arange(scene.length, device=device)[None] // size
            return cls(of_1L, torch.ones(1, count, dtype=torch.bool, device=device))
        of_BL = ((scene.valid_BL.cumsum(1) - 1) // size).masked_fill(~scene.valid_BL, -1)
        return cls(of_BL, torch.arange(count, device=device) <= of_BL.amax(1, keepdim=True))


class EtcStack(Plain):
    """x ← sublayer_n(x) on [global tokens ∘ text], of which the text's half is the output (Ainslie et al. 2020).

    Global tokens begin as one trained vector and stand for segments of `segment` tokens each. What tells them apart is
    which tokens belong to them, and their distance from each other: both are labels in the attention (`etc`).

    `cpc` adds a loss in training, by contrastive predictive coding: some segments are hidden, and the global token of
    each, which sees the rest of the text only, shall be like that of the same segment read alone, and unlike those of
    other hidden segments in the batch: cross-entropy on g·g′/√D. Without it nothing is learned from what the last
    layer gives for global tokens: projections of its own for their queries (`projections` 2 or 4) stay as they are.

    Deviations from the paper: segments have one length instead of being sentences; a hidden segment is one that no
    token sees, instead of one whose tokens are replaced by a mask, so that the loss on its own tokens goes on.
    """

    class Config(Plain.Config, tag="etc"):
        segment: Count = 32
        """Tokens for which one global token stands."""
        cpc: Annotated[float, Field(ge=0)] = 0.0
        """Weight of the loss on hidden segments; 0: none. The paper's is 0.2, beside 0.8 for masked tokens."""
        hidden: Annotated[float, Field(gt=0, le=1)] = 0.1
        """Share of the segments that is hidden in training, with cpc."""

        @model_validator(mode="after")
        def _all_know_globals(self) -> EtcStack.Config:
            for letter, part in self.alphabet.items():
                if letter in self.layout and part.attends and not part.needs_source and not part.knows_globals:
                    raise ValueError(
                        f"alphabet.{letter}: a stack of kind etc puts global tokens in front, which {part.tag} does "
                        "not know from others; use the part etc, or stack=plain"
                    )
            return self

        def with_globals(self, work: Work) -> Work:
            count = -(-work.length // self.segment)
            return replace(work, length=work.length + count, globals=count)

        def params(self, dim: int) -> int:
            return super().params(dim) + dim

        def flops(self, dim: int, work: Work) -> int:
            return super().flops(dim, self.with_globals(work))

        def activation_size(self, dim: int, work: Work, rows: int = 1) -> int:
            return super().activation_size(dim, self.with_globals(work), rows)

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__(config, dim)
        self.config = config
        self.global_D = nn.Parameter(torch.empty(dim).normal_(std=DEVIATION))

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, states: tuple[Any, ...] | None = None
    ) -> tuple[Float[Tensor, "B L D"], tuple[Any, ...]]:
        segments = Segments.cut(scene, self.config.segment)
        J, learns = segments.real_BJ.shape[1], self.training and self.config.cpc > 0
        if not learns:
            y_BLD, after = self._read(x_BLD, segments, scene, scene.valid_BL)
            return y_BLD[:, J:], after
        chosen_BJ = (torch.rand(len(x_BLD), J, device=x_BLD.device) < self.config.hidden) & segments.real_BJ
        of_BL = segments.of_BL.expand(len(x_BLD), -1)
        hidden_BL = chosen_BJ.gather(1, of_BL.clamp(min=0)) | (of_BL < 0)
        y_BLD, after = self._read(x_BLD, segments, scene, ~hidden_BL)
        loss = x_BLD.new_zeros(())
        if int(chosen_BJ.sum()) > 1:  # a single one is unlike no other
            alone_SD = self._alone(x_BLD, of_BL, chosen_BJ, scene)
            scores_SS = y_BLD[:, :J][chosen_BJ] @ alone_SD.T * x_BLD.shape[-1] ** -0.5
            loss = self.config.cpc * F.cross_entropy(scores_SS, torch.arange(len(alone_SD), device=x_BLD.device))
        scene.add_loss("cpc", loss)
        return y_BLD[:, J:], after

    def _read(
        self, x_BLD: Tensor, segments: Segments, scene: Scene, valid_BL: Tensor | None
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """The text after its global tokens, through all sublayers."""
        (B, J), real_BJ = (len(x_BLD), segments.real_BJ.shape[1]), segments.real_BJ
        if valid_BL is not None:
            valid_BL = torch.cat([real_BJ.expand(len(valid_BL), -1), valid_BL], dim=1)
        none_BJ = torch.full_like(real_BJ, -1, dtype=torch.long)
        fields = {
            "i_BL": F.pad(scene.i_BL, (J, 0)),
            "valid_BL": valid_BL,
            "summary_BL": torch.cat([none_BJ, segments.of_BL], dim=1),
        }
        x_BLD = torch.cat([self.global_D.expand(B, J, -1), x_BLD], dim=1)
        return super().forward(x_BLD, replace(scene, globals=J, _once={}, **fields), None)

    def _alone(self, x_BLD: Tensor, of_BL: Tensor, chosen_BJ: Tensor, scene: Scene) -> Float[Tensor, "S D"]:
        """The global token of each chosen segment, read as a text of its own."""
        row_S, nth_S = chosen_BJ.nonzero(as_tuple=True)
        mine_SL = of_BL[row_S] == nth_S[:, None]
        at_Sn = (~mine_SL).int().argsort(dim=1, stable=True)[:, : self.config.segment]
        x_SnD = x_BLD[row_S[:, None], at_Sn]
        valid_Sn = mine_SL.gather(1, at_Sn)
        i_Sn = scene.i_BL.expand(len(x_BLD), -1)[row_S].gather(1, at_Sn)
        one = Segments(torch.zeros_like(at_Sn), torch.ones_like(valid_Sn[:, :1]))
        return self._read(x_SnD, one, Scene(i_Sn), valid_Sn)[0][:, 0]
