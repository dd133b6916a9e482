"""Transformer-XL: segments that remember the ones before."""

from sublayer.nn.embedding import AdaptiveEmbedding, AdaptiveSoftmax
from sublayer.nn.memory import Segment
from sublayer.nn.model import Decoder
from sublayer.nn.position import RelativeXL
from sublayer.papers.registry import paper

DAI = "Dai et al. 2019, Transformer-XL: Attentive Language Models beyond a Fixed-Length Context, arXiv:1901.02860"
MANDAVA = "Mandava, Migacz & Fit-Florea 2020, Pay Attention when Required, arXiv:2009.04534 (Table A1)"
LTS = "Javaheripi et al. 2022, LiteTransformerSearch, arXiv:2203.02094"

WORDS = (19997, 39997, 199997)
"""Clusters of WikiText-103's 267,735 words; with one row for each of three tails, the first has 20,000."""


@paper("transformer-xl-base", parent="transformer-lm", cite=f"{DAI}; sizes: {MANDAVA}", facts={"params": 191_950_298})
def transformer_xl_base(base: Decoder.Config) -> Decoder.Config:
    """Hidden states of earlier segments are read again; positions become distances, with u and v for the whole stack.

    The memory is the evaluation's: 64 new tokens, 640 remembered, distances alike beyond 400. Training uses 192 and 192
    (s.memory.length=192), where the clamp never acts.
    """
    return base.but(
        {"s.heads": 8, "s.bias": False, "s.memory": Segment.Config(length=640), "f.inner": 2048},
        vocab=267735,
        dim=512,
        layout="(sf)x16",
        embedding=AdaptiveEmbedding.Config(cutoffs=WORDS, factor=1, scale=True, dropout=0.1),
        position=RelativeXL.Config(scope="stack", clamp=400),
        head=AdaptiveSoftmax.Config(cutoffs=WORDS, factor=1, tied=True),
    )


@paper("transformer-xl", parent="transformer-xl-base", cite=f"{DAI}; sizes: {LTS}")
def transformer_xl(base: Decoder.Config) -> Decoder.Config:
    """The form that training-free search counts: u and v for each layer, clusters that get narrower, memory of 192."""
    return base.but(
        {"s.memory.length": 192, "position.scope": "layer", "position.clamp": None},
        embedding=AdaptiveEmbedding.Config(cutoffs=WORDS, factor=4, scale=True, dropout=0.1),
        head=AdaptiveSoftmax.Config(cutoffs=WORDS, factor=4, tied=True, projection="tails"),
    )


@paper("transformer-xl-24", parent="transformer-xl-base", cite=f"{DAI}; sizes: {MANDAVA}")
def transformer_xl_24(base: Decoder.Config) -> Decoder.Config:
    """24 sublayers on bytes (enwik8, text8): evaluated with 128 new, 2,052 remembered, clamp 820; trained at 512."""
    return base.but(
        {"s.memory.length": 2052, "position.clamp": 820},
        vocab=256,
        layout="(sf)x12",
        embedding={"kind": "token", "scale": True, "dropout": 0.1},
        head={"kind": "tied", "bias": True},
    )


@paper("transformer-xl-large", parent="transformer-xl-base", cite=f"{DAI}; sizes: {MANDAVA}")
def transformer_xl_large(base: Decoder.Config) -> Decoder.Config:
    """36 sublayers of 1,024: evaluated with 128 new, 1,600 remembered, clamp 1,000; trained at 384."""
    return base.but(
        {"s.heads": 16, "s.memory.length": 1600, "f.inner": 4096, "position.clamp": 1000},
        dim=1024,
        layout="(sf)x18",
    )
