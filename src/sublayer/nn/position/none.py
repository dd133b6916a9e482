"""No positions: order is known through the causal mask alone, or not at all."""

from sublayer.nn.position.base import Position


class NoPosition(Position):
    """Overrides no hook."""

    class Config(Position.Config, tag="none"):
        pass
