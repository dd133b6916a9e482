"""Comparison: variants trained alike and told side by side, with how sure one can be.

from sublayer.comparison import Variant, compare

rotary = Variant.of("gpt2", {"position": "rotary"})
table = compare(["gpt2", rotary], "book.txt", "comparisons/positions", {"dim": 128, "train.tokens": 1_000_000})

COMPARISON/
  compare.json     what was asked; with another request the folder is refused
  runs/NAME-SEED   an ordinary run for each variant and seed
  tuning/NAME-LR   learning rates that were tried, if several were given, and not chosen
  figures.json     what was measured besides: latency, memory, scores on test
  table.json       the result
"""

from sublayer.comparison.job import compare
from sublayer.comparison.variant import Variant, slugs

__all__ = ["Variant", "compare", "slugs"]
