"""Who may see whom."""

from sublayer.nn.attention.pattern.base import Pattern, Sight, lower, sight
from sublayer.nn.attention.pattern.basic import Causal, Full, Window
from sublayer.nn.attention.pattern.chosen import Global
from sublayer.nn.attention.pattern.combined import ByLayer, Combined, PerHead, Union
from sublayer.nn.attention.pattern.factorised import Fixed, Strided
from sublayer.nn.attention.pattern.local import BlockLocal, BlockLocal2D, Blockwise
from sublayer.nn.attention.pattern.mixtures import BigBird, Longformer
from sublayer.nn.attention.pattern.random import Random
from sublayer.nn.attention.pattern.spaced import Dilated

__all__ = [
    "BigBird",
    "BlockLocal",
    "BlockLocal2D",
    "Blockwise",
    "ByLayer",
    "Causal",
    "Combined",
    "Dilated",
    "Fixed",
    "Full",
    "Global",
    "Longformer",
    "Pattern",
    "PerHead",
    "Random",
    "Sight",
    "Strided",
    "Union",
    "Window",
    "lower",
    "sight",
]
