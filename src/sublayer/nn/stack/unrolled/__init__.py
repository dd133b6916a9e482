"""The Feedback stack's loop in one step of autograd: the fast path of `feedback.py`, whose plain loop is its slow twin.

- Autograd would record each small product of each token, and form the gradient of every weight token by token. Here
  the way back computes only what the token before needs; weights get their gradient from many tokens at once.
- Gains and shifts of norms before a matrix, and the scale of scores, are multiplied into the matrix beforehand.
- Gradients of keys and values from tokens of later blocks are added in one product, when the way back reaches their
  block; only tokens of the same block add theirs one by one.
- Dropout masks are drawn for all tokens at once; the factor that makes up for dropout is in the next matrix.
- Buffers have time first, so that each token is one piece of memory.
- On a CPU the steps from token to token are taken in C (`native`); products over many tokens stay here.
"""

from sublayer.nn.stack.unrolled.dropout import scale
from sublayer.nn.stack.unrolled.function import Unrolled
from sublayer.nn.stack.unrolled.plan import NormSpec, Plan, SublayerSpec

__all__ = ["NormSpec", "Plan", "SublayerSpec", "Unrolled", "scale"]
