"""Figures of a claim as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def orders(finding: Mapping[str, Any]) -> list[str]:
    """A line for each thing that the paper finds: whether it was seen."""
    before = [f"{pair['better']} before {pair['worse']}: {pair['seen']}" for pair in finding["order"]]
    return before + [f"{pair['one']} like {pair['other']}: {pair['seen']}" for pair in finding.get("alike", ())]


def cells(finding: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Of each variant: its name, the paper's figure, ours with its interval, and that of each seed."""
    known = (value for row in finding["rows"] for value in (row["paper"], (row["ours"] or {}).get("mean")))
    size = max((abs(value) for value in known if value is not None), default=0.0)

    def figure(value: float | None) -> str:
        if value is None:
            return "—"
        return f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 10 else f"{value:.3f}"

    def row_of(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
        ours: Mapping[str, Any] = row["ours"] or {"mean": None, "high": None}
        half = "" if ours["high"] is None else f" ± {figure(ours['high'] - ours['mean'])}"
        return row["variant"], figure(row["paper"]), figure(ours["mean"]) + half, ", ".join(map(figure, row["values"]))

    return [row_of(row) for row in finding["rows"]]
