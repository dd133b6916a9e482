"""What the quickstart says of its own table: who wins, and within the budget only where that was measured."""

import importlib.util
from pathlib import Path

import pytest

from sublayer.comparison import ComparisonRow, ComparisonTable
from sublayer.comparison.interval import SeedInterval
from sublayer.comparison.records import HeldOutIntervals, Latency

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart.py"


@pytest.fixture(scope="module")
def quickstart():
    spec = importlib.util.spec_from_file_location("quickstart", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(name, bits, ms):
    latency = None if ms is None else Latency(latency=ms / 1e3, low=ms / 1e3, high=ms / 1e3)
    test = HeldOutIntervals(bits_per_byte=SeedInterval.by_seed([bits]))
    return ComparisonRow(name=name, mean=bits, test=test, latency=latency)


def said(quickstart, *rows):
    table = ComparisonTable(rows=list(rows))
    return quickstart.verdict(table, *(quickstart.best(table, side) for side in ("by hand", "searched")))


def test_the_best_of_each_side_within_the_budget_meet(quickstart):
    words = said(
        quickstart,
        row("by hand 1", 2.5, 10.0),
        row("by hand 2", 2.4, 10.4),
        row("by hand 3", 2.45, 9.0),
        row("searched 1", 2.3, 9.9),
    )
    assert "wins by 0.150 bits/byte" in words
    assert words.endswith("within the same budget.")


def test_a_search_that_loses_is_said_to(quickstart):
    words = said(quickstart, row("by hand 1", 2.3, 10.0), row("searched 1", 2.4, 9.9))
    assert "did not win" in words
    assert "0.100 bits/byte less" in words


def test_what_takes_longer_is_not_called_within_the_budget(quickstart):
    words = said(quickstart, row("by hand 1", 2.5, 10.0), row("searched 1", 2.4, 10.1), row("searched 2", 2.3, 10.2))
    assert "within" not in words
    assert "searched 2 took longer than the budget" in words


def test_what_was_not_timed_is_not_called_within_the_budget(quickstart):
    words = said(quickstart, row("by hand 1", 2.5, None), row("searched 1", 2.4, None))
    assert "within" not in words
    assert "too busy" in words
