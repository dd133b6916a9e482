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
            """How many earlier places a head can come to look at; None for all."""
            return None

        @property
        def begins(self) -> int | None:
            """How many it looks at before any training, which is what cost counts; None for all."""
            return self.reach

        def build(self, heads: int) -> Span | None:
            """None where nothing is to be done."""
            return self.owner(self, heads)

        def params(self, heads: int) -> int:
            return 0

    def sees(self, scene: Scene) -> int:
        """How many earlier places the head that looks farthest looks at now: what stands before them is not read."""
        raise NotImplementedError

    def mask(self, apart_BLM: Int[Tensor, "#B L M"], scene: Scene) -> Float[Tensor, "#B H L M"]:
        """m, from 0 to 1, of keys so far apart from their queries."""
        raise NotImplementedError

    def fade(self, apart_BLM: Int[Tensor, "#B L M"], scene: Scene, dtype: torch.dtype) -> Float[Tensor, "#B H L M"]:
        """log m, to be added to scores: softmax(scores + log m) is m·softmax(scores), made to sum to one."""
        m_BHLM = self.mask(apart_BLM, scene)
        # At 0 the logarithm has no gradient that could be multiplied by none: it is taken of something else there.
        log_BHLM = m_BHLM.clamp(min=torch.finfo(m_BHLM.dtype).tiny).log()
        return log_BHLM.masked_fill(m_BHLM == 0, -torch.inf).to(dtype)

    def add_loss(self, scene: Scene) -> None:
        """Tell what spans cost in training; once a pass."""


class FullSpan(Span):
    """Every head looks at all that the pattern and the memory let it see."""

    class Config(Span.Config, tag="full"):
        def build(self, heads: int) -> None:
            return None


class AdaptiveSpan(Span):
    """m(x) = min(max((ramp + z − x)/ramp, 0), 1) at distance x, z learned for each head (Sukhbaatar et al. 2019, 2.2).

    Keys farther than the longest span in use are neither projected nor multiplied. Hidden states are remembered up to
    the limit, since the next update may make a span longer; keys and values only as far as heads look now.

    Training loses `loss`·mean z over heads, z in places, summed over layers, as the authors' code does. FLOPs
    are counted at the spans it starts with; `start` says which.
    """

    class Config(Span.Config, tag="adaptive"):
        limit: Count = 512
        """Earlier places a head can come to look at."""
        ramp: Annotated[int, Field(ge=2)] = 32
        """Places over which the mask falls from 1 to 0; of 1, a head that does not see itself could see nothing."""
        loss: Annotated[float, Field(ge=0)] = 5e-7
        """On the mean span, per place; the authors' for characters (Fan et al. 2020 use 1e-5 for words)."""
        start: Annotated[float, Field(ge=0, le=1)] = 0.0
        """z before any training, as a share of the limit."""

        @property
        def reach(self) -> int:
            return self.limit

        @property
        def begins(self) -> int:
            return self.places(self.start * self.limit + self.ramp)

        def places(self, end: float) -> int:
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
        """Spans in places, at least in fp32: a bf16 cannot count to 8,192."""
        precise = torch.promote_types(self.share_H.dtype, torch.float32)
        return scene.keep(("span", self), lambda: Within.apply(self.share_H.to(precise), self.config.limit))

    def sees(self, scene: Scene) -> int:
        if self.share_H.is_meta:
            return self.config.begins
        return scene.keep(
            ("sees", self), lambda: self.config.places(float(self.z(scene).detach().max() + self.config.ramp))
        )

    def mask(self, apart_BLM: Int[Tensor, "#B L M"], scene: Scene) -> Float[Tensor, "#B H L M"]:
        x_B1LM, ramp = apart_BLM.abs()[:, None], self.config.ramp
        m_BHLM = ((self.z(scene)[:, None, None] + ramp - x_B1LM) / ramp).clamp(max=1)
        return m_BHLM.masked_fill((m_BHLM <= 0) | (x_B1LM > self.config.limit), 0)

    def add_loss(self, scene: Scene) -> None:
        if self.training:
            scene.add_loss("span", self.config.loss * self.z(scene).mean())


class Within(torch.autograd.Function):
    """limit·min(max(x, 0), 1), for an x that steps against its gradient: what stands outside is led back in, not on.

    The authors cut x after each update; a clamp in its place would have no gradient to lead anything back.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: int) -> Tensor:
        # Not saved for the backward pass: what is made once a pass is not made again by recomputed sublayers.
        ctx.below, ctx.above, ctx.limit = x < 0, x > 1, limit
        return x.clamp(0, 1) * limit

    @staticmethod
    def backward(ctx: Any, to: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return to.masked_fill(ctx.below & (to > 0) | ctx.above & (to < 0), 0) * ctx.limit, None
