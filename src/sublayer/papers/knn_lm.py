"""kNN-LM: a language model whose contexts are looked up in a datastore while it predicts."""

from sublayer.nn.embedding import AdaptiveEmbedding, AdaptiveSoftmax
from sublayer.nn.model import Decoder
from sublayer.nn.residual import NoNorm, PreNorm
from sublayer.papers.registry import paper

KHANDELWAL = (
    "Khandelwal et al. 2020, Generalization through Memorization: Nearest Neighbor Language Models, arXiv:1911.00172"
)
WORDS = (20000, 60000)
"""Clusters of WikiText-103's words, padded to 267,744."""


@paper("knn-lm", parent="transformer-lm", cite=KHANDELWAL)
def knn_lm(base: Decoder.Config) -> Decoder.Config:
    """Sixteen layers with adaptive inputs, whose contexts are looked up in a datastore while it predicts.

    What makes it a kNN-LM is no part of the model, and any run can have it: a datastore holds, for every token of a
    text, the vector that enters the last feed-forward (after its norm) and the token that comes next. A prediction is
    λ p(neighbours) + (1 − λ) p(model), where a neighbour counts by exp(−squared distance / temperature).

    `sublayer datastore build RUN --out STORE`, `sublayer eval RUN --datastore STORE --tune` and `sublayer generate RUN
    --datastore STORE --explain` do that for a run of any decoder.

    The paper builds on the adaptive inputs of Baevski & Auli 2019 (247 M parameters), with 16 heads. Deviations: the
    temperature, which is 1 in the paper, is tuned; without tuning it is the root of the width.
    """
    return base.but(
        {"s.heads": 16, "s.dropout": 0.1, "f.inner": 4096, "f.dropout": 0.1},
        vocab=267744,
        dim=1024,
        layout="(sf)x16",
        embedding=AdaptiveEmbedding.Config(cutoffs=WORDS, factor=4, scale=True, dropout=0.3),
        residual=PreNorm.Config(dropout=0.3),
        final_norm=NoNorm.Config(),
        head=AdaptiveSoftmax.Config(cutoffs=WORDS, factor=4, tied=True, bias=False),
    )
