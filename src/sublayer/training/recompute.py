"""Activation checkpointing, applied from outside: each sublayer is run again in the backward pass."""

from __future__ import annotations

from functools import partial

from torch.utils.checkpoint import checkpoint

from sublayer.nn.model import Model
from sublayer.nn.stack import Stack


def recompute(model: Model) -> None:
    """Store the input of each sublayer, not its activations."""
    for stack in model.modules():
        if isinstance(stack, Stack) and not stack.recomputes:
            for sublayer in stack.sublayers:
                sublayer.forward = partial(checkpoint, sublayer.forward, use_reentrant=False)
