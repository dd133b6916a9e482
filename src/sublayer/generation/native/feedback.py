"""The memory of a Feedback stack as step.c takes it: what each layer gives to it, and what is read of it."""

from __future__ import annotations

import torch
from torch import nn

from sublayer.generation.native.form import Cache
from sublayer.generation.native.tensors import NotPlain, Tensors
from sublayer.nn.hooked import hooked
from sublayer.nn.stack import Feedback
from sublayer.nn.stack.compose import Compose


class FeedbackMemory:
    """Streams of memory vectors, and the caches that are made of them: one for each set of keys and values."""

    def __init__(self, stack: Feedback, tensors: Tensors) -> None:
        config, compose = stack.config, stack.compose
        if hooked(compose) or type(compose).forward is not Compose.forward:
            raise NotPlain(type(compose).__name__)
        shares = [nn.functional.pad(share, (0, config.layers + 1 - len(share))) for share in compose.weights()]
        self.streams, self.layers = len(shares), config.layers
        self.compose = tensors.keep(torch.stack(shares))
        self.caches = [_cache(stack, n, tensors) for n in range(len(config.streams))]
        self.reads = config.reads
        """The cache that each attention reads, by sublayer."""
        self.ends = {last: layer for layer, last in enumerate(stack.lasts, 1)}
        """The layer, counted from 1, that ends with a sublayer."""


def _cache(stack: Feedback, n: int, tensors: Tensors) -> Cache:
    reader, (norm, matrix) = stack.readers(n)[0], stack.projection(n)
    return Cache(
        groups=reader.groups,
        size=reader.head_dim,
        stream=stack.config.streams[n],
        norm=tensors.norm(norm),
        made=tensors.linear(matrix),
    )
