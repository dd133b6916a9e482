"""Routing Transformer: half of the heads attend within clusters, the others nearby."""

from sublayer.nn.attention import MultiHead, Routing
from sublayer.nn.attention.pattern import BlockLocal
from sublayer.nn.feedforward import Glu
from sublayer.nn.model import Decoder
from sublayer.nn.parallel import Parallel
from sublayer.nn.position import RelativeKey
from sublayer.nn.residual import LayerNorm, PreNorm
from sublayer.papers.registry import paper

ROY = "Roy et al. 2021, Efficient Content-Based Sparse Attention with Routing Transformers, arXiv:2003.05997"


@paper("routing", parent="transformer-lm", cite=f"{ROY} (the sizes of its code, enwik8)")
def routing(base: Decoder.Config) -> Decoder.Config:
    """A byte model of 12 layers of 1,024: in each, 4 heads of 8 see 512 tokens of their cluster, 4 the last two blocks.

    It is made for texts of 8,192 tokens: 16 clusters times 512. The letter `s` is the layer whose heads are all local;
    with `layout=(sf)x10 (rf)x2` only the last two layers have routed heads, which the paper found best in some
    experiments.

    Layers, width, heads, clusters and windows are those of the authors' code. Attention looks back by our own rule,
    since the paper's clusters depend on later tokens; see the part `routing`. Relative positions act on the keys of
    local heads only, with one table for all layers.
    """
    size = {"head_dim": 128, "bias": False}
    near = BlockLocal.Config(size=256, before=256, look="back")
    local = MultiHead.Config(heads=4, pattern=near, **size)
    routed = Routing.Config(heads=4, clusters=16, window=512, **size)
    alphabet = {
        "alphabet.r": Parallel.Config(parts={"local": local, "routed": routed}),
        "s": local.but(heads=8),
        "f": Glu.Config(inner=3072, activation="gelu"),
    }
    return base.but(
        alphabet,
        vocab=256,
        dim=1024,
        layout="(rf)x12",
        position=RelativeKey.Config(clip=512),
        residual=PreNorm.Config(),
        final_norm=LayerNorm.Config(),
    )
