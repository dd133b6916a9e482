"""The memory of a Feedback stack as step.c takes it: how it is composed of the layers, and what is read of it."""

from __future__ import annotations

import torch
from torch import nn

from sublayer.generation.native.form import CacheStruct
from sublayer.generation.native.tensors import Tensors
from sublayer.nn.stack import Feedback


class FeedbackMemory:
    """Streams of memory vectors, and the caches that are made of them: one for each set of keys and values."""

    def __init__(self, stack: Feedback, tensors: Tensors) -> None:
        config = stack.config
        shares = [nn.functional.pad(share, (0, config.layers + 1 - len(share))) for share in stack.compose.weights()]
        self.streams, self.layers = len(shares), config.layers
        self.compose = tensors.hold(torch.stack(shares))
        self.caches = [_cache(stack, n, tensors) for n in range(len(config.streams))]
        self.reads = config.reads
        """The cache that each attention reads, by sublayer."""
        self.ends = {last: layer for layer, last in enumerate(stack.lasts, 1)}
        """The layer, counted from 1, that ends with a sublayer."""


def _cache(stack: Feedback, n: int, tensors: Tensors) -> CacheStruct:
    reader, (norm, matrix) = stack.readers(n)[0], stack.projection(n)
    return CacheStruct(
        groups=reader.groups,
        size=reader.head_dim,
        stream=stack.config.streams[n],
        norm=tensors.norm(norm),
        made=tensors.linear(matrix),
    )
