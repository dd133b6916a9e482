"""Ids from a model: greedy, sampled or by beam search; at once or as a stream.

from sublayer.generation import Sampling, generate

generate(model, [[1, 2, 3]], tokens=64, sampling=Sampling(temperature=0.8, top_p=0.95), seed=7)
"""

from sublayer.generation.beam import Beam, Hypothesis, beam_search
from sublayer.generation.engine import generate, stream
from sublayer.generation.images import complete
from sublayer.generation.native import NativeReader
from sublayer.generation.reader import path, scores_by_token
from sublayer.generation.sampling import Sampling

__all__ = [
    "Beam",
    "Hypothesis",
    "NativeReader",
    "Sampling",
    "beam_search",
    "complete",
    "generate",
    "path",
    "scores_by_token",
    "stream",
]
