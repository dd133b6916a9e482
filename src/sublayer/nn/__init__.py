"""What a model is: pure torch, no files, no clock, no network.

Importing any of it imports every room, so that each kind stands in its family's phone book before a config is read.
"""

from sublayer.nn import attention, embedding, feedforward, memory, model, position, residual, stack

__all__ = ["attention", "embedding", "feedforward", "memory", "model", "position", "residual", "stack"]
