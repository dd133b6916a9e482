"""What an attention stores of earlier segments."""

from sublayer.nn.memory.base import Attended, Hidden, Memory
from sublayer.nn.memory.cache import Cache, NoMemory
from sublayer.nn.memory.compressive import Compressive
from sublayer.nn.memory.key_values import KeyValues, first_segment
from sublayer.nn.memory.segment import Segment

__all__ = ["Attended", "Cache", "Compressive", "Hidden", "KeyValues", "Memory", "NoMemory", "Segment", "first_segment"]
