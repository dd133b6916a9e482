"""How a model knows the order of tokens."""

from sublayer.nn.position.alibi import Alibi
from sublayer.nn.position.base import Position
from sublayer.nn.position.distance import Distance
from sublayer.nn.position.grid import Grid
from sublayer.nn.position.learned import Learned
from sublayer.nn.position.none import NoPosition
from sublayer.nn.position.relative_key import RelativeKey
from sublayer.nn.position.relative_xl import RelativeXL
from sublayer.nn.position.rotary import Rotary
from sublayer.nn.position.rotary_scaling import RotaryScaling
from sublayer.nn.position.shaw import Shaw
from sublayer.nn.position.sinusoidal import Sinusoidal

__all__ = [
    "Alibi",
    "Distance",
    "Grid",
    "Learned",
    "NoPosition",
    "Position",
    "RelativeKey",
    "RelativeXL",
    "Rotary",
    "RotaryScaling",
    "Shaw",
    "Sinusoidal",
]
