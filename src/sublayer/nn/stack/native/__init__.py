"""The loop of a Feedback stack's training, in C; its slow twin is in `unrolled/`."""

from sublayer.nn.stack.native.loop import Backward, available, computes, forward, knows, runs

__all__ = ["Backward", "available", "computes", "forward", "knows", "runs"]
