"""Who owns the loop over sublayers."""

from sublayer.nn.stack.base import Stack
from sublayer.nn.stack.feedback import Feedback
from sublayer.nn.stack.plain import Plain

__all__ = ["Feedback", "Plain", "Stack"]
