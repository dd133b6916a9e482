"""Objectives: what a model is trained to do, each with the kind of data it needs, its loss and its figures.

objective = choose(model.config, data.config).build(model)
total, state, named = objective(batch)

| objective | needs | trains |
| --- | --- | --- |
| next_token | tokens | a decoder to predict each token from those before it |
| masked_tokens | tokens | an encoder to predict hidden tokens from the others |
| answers | answers | a decoder to answer where an answer is asked for |

A plug-in adds one with a class of its own: `class Config(Objective.Config, tag="mine")`, then train.objective=mine.
"""

from sublayer.objectives.answers import Answers
from sublayer.objectives.base import Objective
from sublayer.objectives.choose import choose
from sublayer.objectives.masked_tokens import MaskedTokens
from sublayer.objectives.meter import Meter
from sublayer.objectives.next_token import NextToken

__all__ = ["Answers", "MaskedTokens", "Meter", "NextToken", "Objective", "choose"]
