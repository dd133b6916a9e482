"""The Feedback stack's loop in one step of autograd: the fast path of `feedback.py`, whose plain loop is its slow twin.

- Autograd would record each small product of each place, and form the gradient of every weight place by place. Here
  the loop backwards forms only what the place before needs; weights get their gradient from many places at once.
- Gains and shifts of norms that stand before a matrix, and the scale of scores, are multiplied into it beforehand.
- Keys and values get what places of later blocks owe them in one product, when the loop reaches their block; only
  places of the same block add theirs one by one.
- What dropout leaves out is drawn for all places at once; what makes up for it is in the next matrix.
- Buffers have time first, so that each place is one piece of memory.
- On a CPU the steps from place to place are taken in C (`native`); what is formed of many places stays here.
"""

from sublayer.nn.stack.unrolled.dropout import scale
from sublayer.nn.stack.unrolled.function import Unrolled
from sublayer.nn.stack.unrolled.plan import Norm, Plan, Sublayer

__all__ = ["Norm", "Plan", "Sublayer", "Unrolled", "scale"]
