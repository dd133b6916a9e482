"""The growing cache: all keys and values so far, so that a new token costs one query."""

from sublayer.nn.memory.base import Remember


class Cache(Remember):
    """Everything is kept; segment after segment equals one pass."""

    class Config(Remember.Config, tag="cache"):
        pass


class NoMemory(Remember):
    """Nothing is kept: attention that looks both ways has no earlier segments."""

    class Config(Remember.Config, tag="none"):
        @property
        def reach(self) -> int:
            return 0
