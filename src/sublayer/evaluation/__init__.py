"""How well a model predicts a text: every target once, in order, with a context of stated length; and how well it
answers the questions of a task.

from sublayer.evaluation import score, score_task

score(model, data.test, length=128, tokenizer=data.tokenizer).bits_per_byte
score_task(model, task.test, length=128).accuracy
"""

from sublayer.evaluation.ages import AgeBin, by_age
from sublayer.evaluation.evaluation import Evaluation
from sublayer.evaluation.scorer import Scorer
from sublayer.evaluation.scores import Score
from sublayer.evaluation.scoring import by_length, by_position, score
from sublayer.evaluation.task_scores import TaskScore
from sublayer.evaluation.task_scoring import score_task
from sublayer.evaluation.text import Scored, other_text, own_text

__all__ = [
    "AgeBin",
    "Evaluation",
    "Score",
    "Scored",
    "Scorer",
    "TaskScore",
    "by_age",
    "by_length",
    "by_position",
    "other_text",
    "own_text",
    "score",
    "score_task",
]
