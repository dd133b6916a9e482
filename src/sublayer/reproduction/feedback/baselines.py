"""The variants: a Feedback Transformer, and a Transformer of the same sublayers, sizes and positions."""

from __future__ import annotations

from sublayer.comparison import Variant
from sublayer.nn.model import Decoder
from sublayer.nn.stack import Feedback, Plain
from sublayer.papers import registry

FEEDBACK, TRANSFORMER = "Feedback", "Transformer"
PAPER = "Fan et al. 2020"
SMALL = {"dim": 64, "layout": "(sf)x2", "s.heads": 4, "s.dropout": 0.0, "f.dropout": 0.0}


def base(name: str) -> Decoder.Config:
    found = registry.config(name)
    assert isinstance(found, Decoder.Config)
    return found


def parallel(config: Decoder.Config) -> Decoder.Config:
    """The same sublayers, sizes and positions in a plain stack: a Transformer, all tokens at once."""
    own = set(Feedback.Config.model_fields) - set(Plain.Config.model_fields)
    stack = {key: value for key, value in config.stack.dump().items() if key not in own}
    return config.but(stack=Plain.Config.parse({**stack, "kind": "plain"}))


def pair(name: str) -> tuple[Variant, Variant]:
    return Variant(FEEDBACK, base(name)), Variant(TRANSFORMER, parallel(base(name)))
