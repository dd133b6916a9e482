"""How well a model predicts a text: every target once, in order, with the context it is said to have.

from sublayer.evaluation import score

score(model, data.test, length=128, tokenizer=data.tokenizer).bits_per_byte
"""

from sublayer.evaluation.scores import Score
from sublayer.evaluation.scoring import by_length, by_position, score
from sublayer.evaluation.text import Scored, other_text, own_text

__all__ = ["Score", "Scored", "by_length", "by_position", "other_text", "own_text", "score"]
