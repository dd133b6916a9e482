"""The laws, for anyone who writes a part: `sublayer.testing.check(MyPart.Config())`."""

from __future__ import annotations

from sublayer.nn.config import Config
from sublayer.nn.model import Model
from sublayer.nn.part import Part
from sublayer.testing.case import Case, LawBroken
from sublayer.testing.laws import LAWS, Law
from sublayer.testing.small import around, small

__all__ = ["LAWS", "Case", "Law", "LawBroken", "around", "check", "small"]


def check(config: Config, *, seed: int = 0, causal: bool = True) -> dict[str, str]:
    """Run every law on a part (put into a small model) or on a model (made small).

    Raises LawBroken at the first that fails; returns law → "holds", or why it does not apply.
    """
    if isinstance(config, Part.Config):
        model = around(config, causal=causal)
    elif isinstance(config, Model.Config):
        model = small(config)
    else:
        raise TypeError(f"the laws are about parts and models, got the {config.family} {config.tag!r}")
    verdicts: dict[str, str] = {}
    for name, law in LAWS.items():
        for cuts in ((3, 1, 7, 2), (1,), (5, 6)):
            reason = law(Case(model, seed, cuts=cuts))
        verdicts[name] = f"does not apply: {reason}" if reason else "holds"
    return verdicts
