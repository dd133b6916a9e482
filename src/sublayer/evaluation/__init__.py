"""How well a model predicts a text: every target once, in order, with the context it is said to have; and how well it
answers the questions of a task.

from sublayer.evaluation import mark, score

score(model, data.test, length=128, tokenizer=data.tokenizer).bits_per_byte
mark(model, task.test, length=128).accuracy
"""

from sublayer.evaluation.scores import Score
from sublayer.evaluation.scoring import by_length, by_position, score
from sublayer.evaluation.task_scores import Marks
from sublayer.evaluation.task_scoring import mark
from sublayer.evaluation.text import Scored, other_text, own_text

__all__ = ["Marks", "Score", "Scored", "by_length", "by_position", "mark", "other_text", "own_text", "score"]
