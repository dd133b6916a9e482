"""The loop of a Feedback stack's training, in C; its slow twin is in `unrolled/`."""

from sublayer.nn.stack.native.loop import Backward, forward, knows, runs, serves

__all__ = ["Backward", "forward", "knows", "runs", "serves"]
