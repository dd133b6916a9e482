"""Longformer: windows that grow with depth, and are dilated in some heads of the upper layers."""

from sublayer.nn.attention import LongformerAttention, Window
from sublayer.nn.attention.pattern import Longformer
from sublayer.nn.feedforward import Dense
from sublayer.nn.memory import Cache
from sublayer.nn.model import Decoder, Encoder
from sublayer.nn.position import Learned, RelativeXL
from sublayer.nn.residual import LayerNorm, PreNorm
from sublayer.papers.registry import paper

BELTAGY = "Beltagy, Peters & Cohan 2020, Longformer: The Long-Document Transformer, arXiv:2004.05150"


@paper("longformer", parent="transformer-xl-24", cite=f"{BELTAGY} (small model, enwik8)")
def longformer(base: Decoder.Config) -> Decoder.Config:
    """Transformer-XL's byte model with windows in place of a memory: 32 tokens in the first layer, 512 in the last.

    In the upper half of the layers, two heads of eight see tokens 2, 3 and at last 4 apart. 41 M parameters.

    The paper trains it in five phases. Windows and texts double from each to the next, up to windows of 512 to 8,192
    and texts of 23,040; learning rates halve, from 2.5e-4, and are constant within a phase. Here the config is that of
    the first phase; `train.stages` describes a training with several.
    """
    windows = Longformer.Config(smallest=32, size=512, dilation=4, dilated=0.25)
    return base.but(
        {"s.memory": Cache.Config(), "s.pattern": windows, "f": Dense.Config(inner=2048, activation="gelu")},
        position=RelativeXL.Config(scope="stack"),
        residual=PreNorm.Config(dropout=0.2),
        final_norm=LayerNorm.Config(),
    ).but({"embedding.dropout": 0.2})


@paper("longformer-large", parent="longformer", cite=f"{BELTAGY} (large model, enwik8)")
def longformer_large(base: Decoder.Config) -> Decoder.Config:
    """30 layers instead of 12, with more dropout: 102 M parameters."""
    return base.but({"residual.dropout": 0.4, "embedding.dropout": 0.4}, layout="(sf)x30")


@paper("longformer-base", parent="bert-base", cite=f"{BELTAGY} (base)", facts={"params": 148_711_257})
def longformer_base(base: Encoder.Config) -> Encoder.Config:
    """RoBERTa on 4,096 tokens: windows of 512, and a first token that sees all by projections of its own.

    Windows are 256 tokens on either side, in all layers, and nothing is dilated (section 5).
    """
    norm = LayerNorm.Config(eps=1e-5)
    attention = LongformerAttention.Config(heads=12, dropout=0.1, window=Window.Config(size=257, look="both"))
    norms = {"embedding.norm": norm, "residual.norm": norm, "head.norm": norm}
    position = Learned.Config(limit=4096, offset=2)
    return base.but({"s": attention, "embedding.types": 1, **norms}, vocab=50265, position=position)
