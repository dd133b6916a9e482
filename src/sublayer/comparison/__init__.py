"""Comparison: variants trained alike and compared, with the uncertainty of each result.

from sublayer.comparison import Variant, compare

rotary = Variant.of("gpt2", {"position": "rotary"}, "rotary")
table = compare(["gpt2", rotary], "book.txt", "comparisons/positions", {"dim": 128, "train.tokens": 1_000_000})
table.ranked[0].name

COMPARISON/
  compare.json     the request; with another request the folder is refused
  runs/NAME-SEED   an ordinary run for each variant and seed
  tuning/NAME-LR   runs with learning rates that were tried and not chosen
  figures.json     what was measured besides: latency, memory, scores on the test split
  table.json       the result (records.ComparisonTable)

`compare_lengths` makes one for each of several lengths (lengths.py).
"""

from sublayer.comparison.job import compare
from sublayer.comparison.length_table import LengthPoint, LengthRow, LengthTable
from sublayer.comparison.lengths import compare_lengths
from sublayer.comparison.records import ComparisonRow, ComparisonTable
from sublayer.comparison.variant import Variant, slugs

__all__ = [
    "ComparisonRow",
    "ComparisonTable",
    "LengthPoint",
    "LengthRow",
    "LengthTable",
    "Variant",
    "compare",
    "compare_lengths",
    "slugs",
]
