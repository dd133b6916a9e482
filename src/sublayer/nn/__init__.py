"""What a model is: pure torch, no files, no clock, no network.

Importing any of it imports every subpackage, so that each kind is in its family's registry before a config is read.
"""

from sublayer.nn import attention, embedding, feedforward, memory, model, parallel, position, residual, stack

__all__ = ["attention", "embedding", "feedforward", "memory", "model", "parallel", "position", "residual", "stack"]
