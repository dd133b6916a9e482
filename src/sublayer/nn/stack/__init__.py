"""Who owns the loop over sublayers."""

from sublayer.nn.stack.base import Stack
from sublayer.nn.stack.etc import EtcStack
from sublayer.nn.stack.feedback import Feedback
from sublayer.nn.stack.plain import Plain
from sublayer.nn.stack.reversible import Reversible

# isort: split
# Fast paths, which register themselves: those imported first are asked first.
from sublayer.nn.stack import planned, sweeps

__all__ = ["EtcStack", "Feedback", "Plain", "Reversible", "Stack", "planned", "sweeps"]
