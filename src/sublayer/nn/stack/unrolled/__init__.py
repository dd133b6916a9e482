"""The Feedback stack's loop in one step of autograd: the fast path of `feedback.py`, whose plain loop is its slow twin.

- Autograd would record each small product of each token, and form the gradient of every weight token by token. Here
  backward computes per token only what the token before needs; weights get their gradient from many tokens at once.
- Gains and shifts of norms before a matrix, and the scale of scores, are multiplied into the matrix beforehand.
- Gradients of keys and values from tokens of later blocks are added in one product, when backward reaches their block;
  only tokens of the same block add theirs one by one.
- Dropout masks are drawn for all tokens at once; the factor 1/(1 − p) is in the next matrix.
- Buffers have time first, so that each token is one piece of memory.
- On a CPU the steps from token to token are taken in C (`native`); products over many tokens stay here.

Names: `to_x` is the gradient of the loss by x. T tokens, B rows, D width, N sublayers, A sets of keys and values, R
streams of memory vectors, H query heads on G key heads of size K, C keys (memory and segment).
"""

from sublayer.nn.stack.unrolled.dropout import scale
from sublayer.nn.stack.unrolled.function import Unrolled
from sublayer.nn.stack.unrolled.plan import NormSpec, Plan, SublayerSpec

__all__ = ["NormSpec", "Plan", "SublayerSpec", "Unrolled", "scale"]
