"""Rotary frequencies changed so that a model reads texts longer than those it was trained on.

| kind | planes | frequencies |
| --- | --- | --- |
| linear | all | divided by the factor |
| dynamic | all | of a base that grows with the position, beyond the trained length |
| yarn | by how often they turn within the trained length | slow ones divided by the factor, fast ones as they were |
| llama3 | by wavelength | the same, with other bounds and a ramp in the frequency |
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor

from sublayer.nn.config import Config, Count, Positive

Factor = Annotated[float, Field(ge=1)]
"""Text length over the trained length."""


class RotaryScaling:
    """Abstract: a kind gives `frequencies`, or `angles` where they depend on the position."""

    class Config(Config, family="rotary_scaling"):
        @property
        def amplitude(self) -> float:
            """Factor on rotated queries and on rotated keys."""
            return 1.0

        def check(self, base: float, width: int) -> None:
            """Raise ValueError where it cannot work with this base and number of rotated features."""

        def frequencies(self, base: float, width: int) -> Float[Tensor, " E"]:
            """Radians a position in each of width/2 planes."""
            raise NotImplementedError(f"{type(self).__qualname__} does not give its frequencies")

        def angles(self, i_BM: Float[Tensor, "B M"], base: float, width: int) -> Float[Tensor, "B M E"]:
            return i_BM[..., None] * self.frequencies(base, width).to(i_BM.device)


def plain_frequencies(base: float, width: int) -> Float[Tensor, " E"]:
    """base^(−2e/width), without scaling."""
    return base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)


class LinearScaling(RotaryScaling):
    """Positions divided by the factor (Chen et al. 2023, section 2.3)."""

    class Config(RotaryScaling.Config, tag="linear"):
        factor: Factor

        def frequencies(self, base: float, width: int) -> Float[Tensor, " E"]:
            return plain_frequencies(base, width) / self.factor


class DynamicScaling(RotaryScaling):
    """A token at position i turns with base·(factor·n/length − factor + 1)^(width/(width−2)), n = max(i + 1, length)
    ("NTK-aware" scaling, which divides the lowest frequency by about factor·n/length and leaves the highest).

    Deviations: transformers takes n to be the length of the pass, so that its scores depend on how a text is cut into
    passes. Here n is the length up to the token itself, so that they do not: one pass equals any number of segments,
    and both equal transformers' generation token by token with a cache.
    """

    class Config(RotaryScaling.Config, tag="dynamic"):
        factor: Factor
        length: Count
        """Number of positions the model was trained on."""

        def check(self, base: float, width: int) -> None:
            if width <= 2:
                raise ValueError(f"rotary scaling dynamic needs 4 turned features a head or more, got {width}")

        def angles(self, i_BM: Float[Tensor, "B M"], base: float, width: int) -> Float[Tensor, "B M E"]:
            n_BM = (i_BM + 1).clamp(min=self.length)
            growth_BM = (self.factor * n_BM / self.length - (self.factor - 1)) ** (width / (width - 2))
            exponent_E = torch.arange(0, width, 2, dtype=torch.float64, device=i_BM.device) / width
            return i_BM[..., None] * (base * growth_BM[..., None]) ** -exponent_E


class YarnScaling(RotaryScaling):
    """Planes that turn more than `fast` times within the trained length keep their frequency; those that turn less than
    `slow` times have it divided by the factor; between, a ramp over planes (Peng et al. 2023, section 3.2)."""

    class Config(RotaryScaling.Config, tag="yarn"):
        factor: Factor
        length: Count
        """Number of positions the model was trained on."""
        fast: Positive = 32.0
        slow: Positive = 1.0
        attention: Positive | None = None
        """Factor on rotated queries and on rotated keys; None: the paper's, 0.1·ln(factor) + 1."""
        whole: bool = True
        """Whether the ramp begins and ends at whole planes."""

        @property
        def amplitude(self) -> float:
            return yarn_amplitude(self.factor) if self.attention is None else self.attention

        def check(self, base: float, width: int) -> None:
            if base <= 1:
                raise ValueError(f"rotary scaling yarn needs a base above 1, got {base}")

        def frequencies(self, base: float, width: int) -> Float[Tensor, " E"]:
            low, high = (self._plane(turns, base, width) for turns in (self.fast, self.slow))
            if self.whole:
                low, high = math.floor(low), math.ceil(high)
            low, high = max(low, 0), min(high, width - 1)
            # A ramp of no width would divide 0 by 0; transformers takes the same 0.001.
            high = high + 0.001 if low == high else high
            slow_E = ((torch.arange(width // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
            plain_E = plain_frequencies(base, width)
            return plain_E / self.factor * slow_E + plain_E * (1 - slow_E)

        def _plane(self, turns: float, base: float, width: int) -> float:
            """The plane, as a real number, that turns so often within the trained length."""
            return width * math.log(self.length / (turns * 2 * math.pi)) / (2 * math.log(base))


class Llama3Scaling(RotaryScaling):
    """Wavelengths below length/high stay, those above length/low are multiplied by the factor; between, the frequency
    is interpolated (Llama 3.1's code)."""

    class Config(RotaryScaling.Config, tag="llama3"):
        factor: Factor = 8.0
        length: Count = 8192
        """Number of positions the model was trained on."""
        low: Positive = 1.0
        high: Positive = 4.0

        @model_validator(mode="after")
        def _check_order(self) -> Llama3Scaling.Config:
            if self.high <= self.low:
                raise ValueError(f"high={self.high} must be above low={self.low}")
            return self

        def frequencies(self, base: float, width: int) -> Float[Tensor, " E"]:
            plain_E = plain_frequencies(base, width)
            turns_E = self.length * plain_E / (2 * math.pi)
            fast_E = ((turns_E - self.low) / (self.high - self.low)).clamp(0, 1)
            return plain_E / self.factor * (1 - fast_E) + plain_E * fast_E


def yarn_amplitude(factor: float, scale: float = 1.0) -> float:
    """0.1·scale·ln(factor) + 1: a factor against attention weights becoming flat over longer texts."""
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0
