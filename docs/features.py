"""Draw docs/images/performer.svg: how far attention by random features is from exact attention, by their number.

python docs/features.py

The survey's figure 24, after figure 4 of Choromanski et al. 2021: left, features whose vectors are drawn independently
or at right angles; right, sines and cosines beside positive features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, floor, log10
from pathlib import Path

import picture
import torch
from torch import Tensor

from sublayer.nn.attention.kernel.performer import Positive
from sublayer.nn.attention.kernel.random_features import gaussian, orthogonal
from sublayer.reports.charts import PALETTE

FILE = Path(__file__).parent / "images" / "performer.svg"
SIZE, TOKENS, SAMPLES = 16, 4096, 15
"""As in the paper: of a query or key, of a text, of texts and draws."""
FEATURES = (16, 32, 64, 128, 256)
SMALL, LARGE = 0.5, 0.75
"""Deviations of queries and keys, of which the paper only says that they are random and normalised."""
INDEPENDENT, ORTHOGONAL, WAVES = "positive, independent", "positive, orthogonal", "sines and cosines"
PANELS = (
    (f"queries and keys of deviation {SMALL}", {SMALL: ""}, (INDEPENDENT, ORTHOGONAL)),
    (f"of deviation {LARGE}; dashes: {SMALL}", {LARGE: "", SMALL: "6 4"}, (WAVES, INDEPENDENT)),
)
"""Title, deviations with the dashes of their lines, kinds."""
COLOURS: dict[str, str] = dict(zip((INDEPENDENT, ORTHOGONAL, WAVES), PALETTE, strict=False))

Errors = Mapping[str, Mapping[int, Sequence[float]]]
"""Mean squared errors of each sample, by kind and number of features, at one deviation."""


def positive(draw: Callable[[int, int, torch.Generator], Tensor]) -> Callable[..., Tensor]:
    def features(x_LK: Tensor, count: int, generator: torch.Generator) -> Tensor:
        return Positive(draw(count, SIZE, generator)[None] * SIZE**-0.25)(x_LK[None, None])[0, 0].exp()

    return features


def waves(x_LK: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """e^(|x|²/2) [sin(w · x), cos(w · x)], x = q/K^¼."""
    x_LK = x_LK * SIZE**-0.25
    at_LF = x_LK @ gaussian(count // 2, SIZE, generator).T
    return torch.cat([at_LF.sin(), at_LF.cos()], dim=-1) * (x_LK.square().sum(-1, keepdim=True) / 2).exp()


KINDS = {INDEPENDENT: positive(gaussian), ORTHOGONAL: positive(orthogonal), WAVES: waves}


def errors(deviation: float) -> Errors:
    """Of attention that looks both ways, on normal queries, keys and values."""
    found = {kind: {count: [] for count in FEATURES} for kind in KINDS}
    for sample in range(SAMPLES):
        q, k, v = torch.randn(3, TOKENS, SIZE, generator=torch.Generator().manual_seed(sample), dtype=torch.float64)
        q, k = deviation * q, deviation * k
        exact = (q @ k.T * SIZE**-0.5).softmax(-1) @ v
        for kind, of_count in found.items():
            for count, values in of_count.items():
                # One draw of vectors for queries and keys.
                q_LF, k_LF = (KINDS[kind](x, count, torch.Generator().manual_seed(sample)) for x in (q, k))
                estimate = q_LF @ (k_LF.T @ v) / (q_LF @ k_LF.sum(0))[:, None]
                values.append(float((estimate - exact).square().mean()))
    return found


WIDE, HIGH, LEFT, TOP, APART = 300, 220, 66, 30, 96
"""Pixels: of a panel, before and above it, between panels."""


def draw(found: Mapping[float, Errors]) -> str:
    """Medians, and bands from the first to the third quartile, both axes logarithmic."""
    pieces = []
    for n, (title, dashes, kinds) in enumerate(PANELS):
        left = LEFT + n * (WIDE + APART)
        shown = {(kind, dash): found[deviation][kind] for deviation, dash in dashes.items() for kind in kinds}
        low, high = decades(
            value for by_count in shown.values() for many in by_count.values() for value in quartiles(many)
        )
        pieces += [*axes(left, low, high, title), *legend(left, kinds)]
        for (kind, dash), by_count in shown.items():
            pieces += curve(left, low, high, by_count, COLOURS[kind], dash)
    title = "Mean squared error of attention by random features, by their number"
    return picture.svg(LEFT + 2 * WIDE + APART + 10, TOP + HIGH + 46, title, pieces) + "\n"


def decades(values: Iterable[float]) -> tuple[int, int]:
    """The powers of ten between which they lie."""
    edges = sorted(values)
    return floor(log10(edges[0])), ceil(log10(edges[-1]))


def curve(
    left: float, low: int, high: int, found: Mapping[int, Sequence[float]], colour: str, dash: str
) -> Iterable[str]:
    points = [(across(left, count), *(up(one, low, high) for one in quartiles(many))) for count, many in found.items()]
    band = [(x, first) for x, first, _, _ in points] + [(x, third) for x, _, _, third in reversed(points)]
    yield f'<path d="M{joined(band)}Z" fill="{colour}" fill-opacity="0.15"/>'
    line = joined((x, median) for x, _, median, _ in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'


def quartiles(values: Sequence[float]) -> list[float]:
    return (
        torch.tensor(values, dtype=torch.float64)
        .quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
        .tolist()
    )


def axes(left: float, low: int, high: int, title: str) -> Iterable[str]:
    frame = f'width="{WIDE}" height="{HIGH}" fill="none" stroke="{picture.GREY}" opacity="0.5"'
    yield f'<rect x="{left}" y="{TOP}" {frame}/>'
    for power in range(low, high + 1):
        y = up(10.0**power, low, high)
        yield f'<line x1="{left}" x2="{left + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="{picture.GREY}" opacity="0.2"/>'
        yield picture.text(f"{10.0**power:g}", left - 6, y + 4, size=11, anchor="end")
    for count in FEATURES:
        yield picture.text(str(count), across(left, count), TOP + HIGH + 16, size=11, anchor="middle")
    yield picture.text(f"features; {title}", left + WIDE / 2, TOP + HIGH + 34, size=12, anchor="middle")


def legend(left: float, kinds: Sequence[str]) -> Iterable[str]:
    for n, kind in enumerate(kinds):
        x = left + n * WIDE / 2
        yield f'<rect x="{x}" y="{TOP - 21}" width="11" height="11" rx="2" fill="{COLOURS[kind]}"/>'
        yield picture.text(kind, x + 16, TOP - 11, size=12)


def across(left: float, count: int) -> float:
    return left + 14 + (WIDE - 28) * log10(count / FEATURES[0]) / log10(FEATURES[-1] / FEATURES[0])


def up(value: float, low: int, high: int) -> float:
    return TOP + HIGH * (high - log10(value)) / (high - low)


def joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


if __name__ == "__main__":
    FILE.write_text(draw({deviation: errors(deviation) for deviation in (SMALL, LARGE)}), encoding="utf-8")
    print(f"wrote {FILE}")
