"""What is kept of earlier segments."""

from sublayer.nn.memory.base import Hidden, KeyValues, Remember
from sublayer.nn.memory.cache import Cache, NoMemory
from sublayer.nn.memory.segment import Segment

__all__ = ["Cache", "Hidden", "KeyValues", "NoMemory", "Remember", "Segment"]
