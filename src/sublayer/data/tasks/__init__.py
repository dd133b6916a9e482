"""Tasks: episodes drawn by a seed, with an exact answer to each question (Fan et al. 2020, sections 4.1 and 7).

walk = Task.named("random-walk").but(size=5).build()
for batch in Episodes(walk.train, batch=16):
    …

| task | read | answered | trained |
| --- | --- | --- | --- |
| copy, reverse | digits, a separator, the answer so far | the digits again, or backwards | a row each |
| counting | A's, a separator, the answer so far | as many B's, and an end | a row each |
| recall | keys with their values, then keys | the value of each key | a row each |
| random-walk | forward, left, right, reset | where the walker is: labels of their own | in lanes, or a row each |
| algorithmic | a program | what it prints: labels of their own | in lanes, or a row each |
"""

from sublayer.data.tasks.algorithmic import Algorithmic
from sublayer.data.tasks.base import Task
from sublayer.data.tasks.batches import Chains, Episodes, exam
from sublayer.data.tasks.copy import Copy, Reverse
from sublayer.data.tasks.counting import Counting
from sublayer.data.tasks.examples import Examples
from sublayer.data.tasks.random_walk import RandomWalk
from sublayer.data.tasks.recall import Recall

__all__ = [
    "Algorithmic",
    "Chains",
    "Copy",
    "Counting",
    "Episodes",
    "Examples",
    "RandomWalk",
    "Recall",
    "Reverse",
    "Task",
    "exam",
]
