"""Sparse Transformer: attention in two steps, so that any earlier token is reached through another."""

from sublayer.nn.attention.pattern import Fixed, Strided
from sublayer.nn.embedding import LinearHead, TokenEmbedding
from sublayer.nn.feedforward import Dense
from sublayer.nn.model import Decoder
from sublayer.nn.position import Grid
from sublayer.nn.residual import LayerNorm, PreNorm
from sublayer.papers.registry import paper

CHILD = "Child et al. 2019, Generating Long Sequences with Sparse Transformers, arXiv:1904.10509"


@paper("sparse-transformer", parent="transformer-lm", cite=f"{CHILD} (enwik8)")
def sparse_transformer(base: Decoder.Config) -> Decoder.Config:
    """A query sees its own block of 128 and the last 32 tokens of every block before: the fixed pattern, for text.

    The enwik8 model: 30 layers of 512 with 8 heads on 12,288 bytes, both steps merged in each head; 95 M parameters,
    since positions are a row and a column of the stride. To train it as the paper does, recompute activations
    (train.recompute=true). Deviation: GELU itself, where the paper has x·σ(1.702x).
    """
    return base.but(
        {"s.heads": 8, "s.pattern": Fixed.Config(stride=128, summary=32), "f": Dense.Config(activation="gelu")},
        vocab=256,
        dim=512,
        layout="(sf)x30",
        embedding=TokenEmbedding.Config(),
        position=Grid.Config(shape=(96, 128)),
        residual=PreNorm.Config(dropout=0.4),
        final_norm=LayerNorm.Config(),
        head=LinearHead.Config(),
    )


@paper("sparse-transformer-cifar", parent="sparse-transformer", cite=f"{CHILD} (CIFAR-10)")
def sparse_transformer_cifar(base: Decoder.Config) -> Decoder.Config:
    """A query sees the tokens since the one above it, and the column of those above: the strided pattern, for images.

    The depth and width of the CIFAR-10 model: 128 layers of 256 with 2 heads and narrow feed-forwards; the stride is a
    row of the image, 32 pixels in three channels. Deviation: queries and keys have the full width, where the paper
    halves it, so that there are 67 M parameters and not 59 M.
    """
    changes = {"s.heads": 2, "s.pattern": Strided.Config(stride=96), "f.inner": 512}
    shape = Grid.Config(shape=(32, 32, 3))
    return base.but(changes, dim=256, layout="(sf)x128", position=shape, residual=PreNorm.Config(dropout=0.25))
