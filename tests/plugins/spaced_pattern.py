"""A sparse pattern: the last few tokens, and every so many-th of all earlier ones."""

import torch

from sublayer.nn.attention import Pattern
from sublayer.nn.attention.bands import Band
from sublayer.nn.config import Count


class Spaced(Pattern):
    """Query i sees j ≤ i if i − j < near, or if j is the last of its group of `every` tokens."""

    class Config(Pattern.Config, tag="spaced"):
        near: Count = 4
        every: Count = 8

        @property
        def causal(self):
            return True

        def allows(self, i, j):
            return (i - j < self.near) | (j % self.every == self.every - 1)

        def bands(self, length, memory, start):
            first = start - memory
            own, key = torch.arange(memory, memory + length), torch.arange(memory + length)
            near = (own - self.near + 1).clamp(min=0)
            summaries = key[(key + first) % self.every == self.every - 1]
            before = torch.searchsorted(summaries, near)
            none = torch.zeros(length, dtype=torch.int32)
            return Band(near.int(), (own + 1).int()), Band(none, before.int(), None, summaries.int())
