"""Image Transformer: an image as a text of pixels, in which a query sees its neighbourhood."""

from sublayer.nn.attention.pattern import BlockLocal, BlockLocal2D
from sublayer.nn.embedding import LinearHead, TokenEmbedding
from sublayer.nn.model import Decoder
from sublayer.nn.position import Grid
from sublayer.nn.residual import PostNorm
from sublayer.papers.registry import paper

PARMAR = "Parmar et al. 2018, Image Transformer, arXiv:1802.05751"


@paper("image-transformer", parent="transformer-lm", cite=PARMAR)
def image_transformer(base: Decoder.Config) -> Decoder.Config:
    """Blocks of 256 pixels see themselves and the 256 pixels before them, in raster order.

    The categorical model of CIFAR-10 (section 5.1): 12 layers of 512, images of 32 × 32 in three channels, one token
    for each intensity. Deviations from the paper: rows, columns and channels have a learned vector each, where the
    paper gives half of the dimensions to the row; and the three channels share one table of intensities.
    """
    return base.but(
        {"s.heads": 4, "s.pattern": BlockLocal.Config(size=256, before=256)},
        vocab=256,
        layout="(sf)x12",
        embedding=TokenEmbedding.Config(dropout=0.3),
        position=Grid.Config(shape=(32, 32, 3)),
        residual=PostNorm.Config(dropout=0.3),
        head=LinearHead.Config(),
    )


@paper("image-transformer-2d", parent="image-transformer", cite=PARMAR)
def image_transformer_2d(base: Decoder.Config) -> Decoder.Config:
    """Blocks are rectangles, which also see 16 rows above them and 32 columns on either side.

    Sizes are those of the authors' code, blocks of 16 rows and 16 columns, where a row has 96 columns: 32 pixels in
    three channels. Deviation: pixels are generated in raster order of the image, not block after block.
    """
    blocks = BlockLocal2D.Config(width=96, rows=16, columns=16, above=16, beside=32)
    return base.but({"s.pattern": blocks})
