"""Figures of a claim as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def orders(finding: Mapping[str, Any]) -> list[str]:
    """A line for each thing that the paper finds: whether it was seen."""
    before = [f"{pair['better']} before {pair['worse']}: {pair['seen']}" for pair in finding["order"]]
    return before + [f"{pair['one']} like {pair['other']}: {pair['seen']}" for pair in finding.get("alike", ())]


def cells(row: dict[str, Any]) -> tuple[str, str, str]:
    """The paper's figure, ours with its interval, and that of each seed."""
    ours, paper = row["ours"], row["paper"]
    size = max(abs(paper or 0), abs(ours["mean"]) if ours else 0)

    def figure(value: float | None) -> str:
        if value is None:
            return "—"
        return f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 10 else f"{value:.3f}"

    half = "" if ours is None or ours["high"] is None else f" ± {figure(ours['high'] - ours['mean'])}"
    return figure(paper), figure(ours and ours["mean"]) + half, ", ".join(map(figure, row["values"]))
