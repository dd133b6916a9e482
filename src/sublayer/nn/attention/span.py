"""Span: how far back each head looks. All the way, or as far as it learns to."""

from __future__ import annotations

import math
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from sublayer.nn.config import Config, Count
from sublayer.nn.scene import Scene


class Span(nn.Module):
    """Abstract: a factor on the weights of each head, by distance, before they are made to sum to one again."""

    class Config(Config, family="span"):
        @property
        def reach(self) -> int | None:
            """Number of earlier tokens a head can learn to look at; None for all."""
            return None

        @property
        def begins(self) -> int | None:
            """Number of earlier tokens it looks at before training, which is what cost counts; None for all."""
            return self.reach

        def build(self, heads: int) -> Span | None:
            """None for a span that changes nothing."""
            return self.owner(self, heads)

        def params(self, heads: int) -> int:
            return 0

    def sees(self, scene: Scene) -> int:
        """Number of earlier tokens that the farthest-looking head reads now; keys before them are skipped."""
        raise NotImplementedError

    def mask(self, apart_BLM: Int[Tensor, "#B L M"], scene: Scene) -> Float[Tensor, "#B H L M"]:
        """m, from 0 to 1, for keys at these distances from their queries."""
        raise NotImplementedError

    def fade(self, apart_BLM: Int[Tensor, "#B L M"], scene: Scene, dtype: torch.dtype) -> Float[Tensor, "#B H L M"]:
        """log m, to be added to scores: softmax(scores + log m) is m·softmax(scores), made to sum to one."""
        m_BHLM = self.mask(apart_BLM, scene)
        # log′(0) is infinite, and ∞·0 is NaN in backward: the logarithm is taken of a tiny number, then masked.
        log_BHLM = m_BHLM.clamp(min=torch.finfo(m_BHLM.dtype).tiny).log()
        return log_BHLM.masked_fill(m_BHLM == 0, -torch.inf).to(dtype)

    def add_loss(self, scene: Scene) -> None:
        """Add the training loss on spans; called once per pass."""


class FullSpan(Span):
    """Every head looks at all that the pattern and the memory let it see."""

    class Config(Span.Config, tag="full"):
        def build(self, heads: int) -> None:
            return None


class AdaptiveSpan(Span):
    """m(x) = min(max((ramp + z − x)/ramp, 0), 1) at distance x, z learned for each head (Sukhbaatar et al. 2019, 2.2).

    Keys farther than the longest span in use are neither projected nor multiplied. Hidden states are remembered up to
    the limit, since the next update may make a span longer; keys and values only as far as heads look now.

    The training loss gains `loss`·mean z over heads, z in tokens, summed over layers, as in the authors' code. FLOPs
    are counted at the initial spans, which `start` sets.
    """

    class Config(Span.Config, tag="adaptive"):
        limit: Count = 512
        """Earlier tokens a head can learn to look at."""
        ramp: Annotated[int, Field(ge=2)] = 32
        """Tokens over which the mask falls from 1 to 0; with 1, a head that does not see itself could see nothing."""
        loss: Annotated[float, Field(ge=0)] = 5e-7
        """Loss per token of mean span; the authors' for characters (Fan et al. 2020 use 1e-5 for words)."""
        start: Annotated[float, Field(ge=0, le=1)] = 0.0
        """z before any training, as a share of the limit."""

        @property
        def reach(self) -> int:
            return self.limit

        @property
        def begins(self) -> int:
            return self.distances(self.start * self.limit + self.ramp)

        def distances(self, end: float) -> int:
            """Whole distances before the mask ends, within the limit."""
            return self.limit if math.isnan(end) else min(self.limit, math.ceil(end) - 1)

        def params(self, heads: int) -> int:
            return heads

    def __init__(self, config: AdaptiveSpan.Config, heads: int) -> None:
        super().__init__()
        self.config = config
        self.share_H = nn.Parameter(torch.full((heads,), config.start))
        """z as a share of the limit: a step of an optimiser is then no smaller where spans are longer."""

    def z(self, scene: Scene) -> Float[Tensor, " H"]:
        """Spans in tokens, at least in fp32: bf16 cannot count to 8,192."""
        precise = torch.promote_types(self.share_H.dtype, torch.float32)
        return scene.once_per_pass(("span", self), lambda: Within.apply(self.share_H.to(precise), self.config.limit))

    def sees(self, scene: Scene) -> int:
        if self.share_H.is_meta:
            return self.config.begins
        return scene.once_per_pass(
            ("sees", self), lambda: self.config.distances(float(self.z(scene).detach().max() + self.config.ramp))
        )

    def mask(self, apart_BLM: Int[Tensor, "#B L M"], scene: Scene) -> Float[Tensor, "#B H L M"]:
        x_B1LM, ramp = apart_BLM.abs()[:, None], self.config.ramp
        m_BHLM = ((self.z(scene)[:, None, None] + ramp - x_B1LM) / ramp).clamp(max=1)
        return m_BHLM.masked_fill((m_BHLM <= 0) | (x_B1LM > self.config.limit), 0)

    def add_loss(self, scene: Scene) -> None:
        if self.training:
            scene.add_loss("span", self.config.loss * self.z(scene).mean())


class Within(torch.autograd.Function):
    """limit·min(max(x, 0), 1), whose gradient outside [0, 1] is passed only where it leads x back inside.

    The authors clamp x after each update; a plain clamp here would have no gradient outside, so x could not return.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: int) -> Tensor:
        # Not by save_for_backward: this runs once per pass; sublayers recomputed in backward would not run it again.
        ctx.below, ctx.above, ctx.limit = x < 0, x > 1, limit
        return x.clamp(0, 1) * limit

    @staticmethod
    def backward(ctx: Any, to: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return to.masked_fill(ctx.below & (to > 0) | ctx.above & (to < 0), 0) * ctx.limit, None
