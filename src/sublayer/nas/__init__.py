"""Search for models: spaces to choose from, methods that propose candidates, the front of the best."""

from sublayer.nas.benchmark import compare_methods
from sublayer.nas.choice import Choice
from sublayer.nas.records import FrontModel, SearchGoal, SearchRequest, SearchResult
from sublayer.nas.reporters import SearchReporter
from sublayer.nas.rule import Rule
from sublayer.nas.search import search
from sublayer.nas.sources import Sources
from sublayer.nas.space import Candidate, Space
from sublayer.nas.spaces import SPACES, find, read, space
from sublayer.nas.stages import Stage
from sublayer.nas.trial import Trial

__all__ = [
    "SPACES",
    "Candidate",
    "Choice",
    "FrontModel",
    "Rule",
    "SearchGoal",
    "SearchReporter",
    "SearchRequest",
    "SearchResult",
    "Sources",
    "Space",
    "Stage",
    "Trial",
    "compare_methods",
    "find",
    "read",
    "search",
    "space",
]
