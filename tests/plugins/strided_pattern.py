"""A sparse pattern (after Child et al. 2019): the last few tokens, and every so many-th of all earlier ones."""

from sublayer.nn.attention import Pattern
from sublayer.nn.config import Count


class Strided(Pattern):
    """Query i sees j ≤ i if i − j < near, or if j is the last of its group of `every` tokens."""

    class Config(Pattern.Config, tag="strided"):
        tile = 8
        near: Count = 4
        every: Count = 8

        @property
        def causal(self):
            return True

        def allows(self, i, j):
            return (i - j < self.near) | (j % self.every == self.every - 1)

        def runs(self, length, memory):
            starts = range(memory, memory + length, self.tile)
            return [self._runs(start, min(start + self.tile, memory + length)) for start in starts]

        def _runs(self, first, end):
            near = max(0, first - self.near + 1)
            summaries = range(self.every - 1, near, self.every)
            return [*((key, key + 1) for key in summaries), (near, end)]
