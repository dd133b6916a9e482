"""Token ids to vectors, and hidden vectors to scores."""

from sublayer.nn.embedding.adaptive import AdaptiveEmbedding
from sublayer.nn.embedding.adaptive_softmax import AdaptiveSoftmax
from sublayer.nn.embedding.base import Embedding
from sublayer.nn.embedding.classify import Classify
from sublayer.nn.embedding.factorised import FactorisedEmbedding
from sublayer.nn.embedding.head import Head
from sublayer.nn.embedding.label import Label
from sublayer.nn.embedding.linear import LinearHead, MatrixHead
from sublayer.nn.embedding.masked_lm import MaskedLM
from sublayer.nn.embedding.mixture import MixtureOfSoftmaxes
from sublayer.nn.embedding.pooled import PooledHead
from sublayer.nn.embedding.regress import Regress
from sublayer.nn.embedding.span import SpanHead
from sublayer.nn.embedding.tied import TiedHead
from sublayer.nn.embedding.token import TokenEmbedding

__all__ = [
    "AdaptiveEmbedding",
    "AdaptiveSoftmax",
    "Classify",
    "Embedding",
    "FactorisedEmbedding",
    "Head",
    "Label",
    "LinearHead",
    "MaskedLM",
    "MatrixHead",
    "MixtureOfSoftmaxes",
    "PooledHead",
    "Regress",
    "SpanHead",
    "TiedHead",
    "TokenEmbedding",
]
