"""OPT: GPT-2's shape, openly trained."""

from sublayer.nn.embedding import FactorisedEmbedding, TiedHead
from sublayer.nn.feedforward import Dense
from sublayer.nn.model import Decoder
from sublayer.nn.position import Learned
from sublayer.nn.residual import NoNorm, PostNorm
from sublayer.papers.registry import paper

ZHANG = "Zhang et al. 2022, OPT: Open Pre-trained Transformer Language Models, arXiv:2205.01068"


@paper("opt-125m", parent="gpt2", cite=ZHANG, facts={"params": 125_239_296})
def opt_125m(base: Decoder.Config) -> Decoder.Config:
    """GPT-2 with ReLU, a vocabulary of 50,272, and 2,048 positions behind two spare rows."""
    return base.but(
        {"f": Dense.Config(), "s.dropout": 0.0, "embedding.dropout": 0.0},
        vocab=50272,
        position=Learned.Config(limit=2048, offset=2),
    )


@paper("opt-350m", parent="opt-125m", cite=ZHANG, facts={"params": 331_196_416, "decoder_params": 302_309_376})
def opt_350m(base: Decoder.Config) -> Decoder.Config:
    """The odd one of its family: post-norm without a final norm, and token vectors of 512 projected to 1,024."""
    return base.but(
        {"s.heads": 16},
        dim=1024,
        layout="(sf)x24",
        residual=PostNorm.Config(dropout=0.1),
        final_norm=NoNorm.Config(),
        embedding=FactorisedEmbedding.Config(rank=512),
        head=TiedHead.Config(projection="own"),
    )
