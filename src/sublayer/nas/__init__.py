"""Search for models: spaces to choose from, ways to search them, what came of it."""

from sublayer.nas.benchmark import contest
from sublayer.nas.choice import Choice
from sublayer.nas.rule import Rule
from sublayer.nas.search import search
from sublayer.nas.space import Candidate, Space
from sublayer.nas.spaces import SPACES, find, read, space
from sublayer.nas.trial import Objective, Trial

__all__ = [
    "SPACES",
    "Candidate",
    "Choice",
    "Objective",
    "Rule",
    "Space",
    "Trial",
    "contest",
    "find",
    "read",
    "search",
    "space",
]
