"""GPT-2: the decoder alone, normalised before each part."""

from sublayer.nn.embedding import TokenEmbedding
from sublayer.nn.feedforward import Dense
from sublayer.nn.model import Decoder
from sublayer.nn.position import Learned
from sublayer.nn.residual import LayerNorm, PreNorm
from sublayer.papers.registry import paper


@paper(
    "gpt2",
    parent="transformer-lm",
    cite="Radford et al. 2019, Language Models are Unsupervised Multitask Learners",
    facts={"params": 124_439_808, "decoder_params": 85_056_000},
)
def gpt2(base: Decoder.Config) -> Decoder.Config:
    """Norms move to the inputs of the parts, with one more at the end; GELU, learned positions, a wider model."""
    return base.but(
        {"s.heads": 12, "s.dropout": 0.1, "f": Dense.Config(activation="gelu_tanh")},
        vocab=50257,
        dim=768,
        layout="(sf)x12",
        embedding=TokenEmbedding.Config(dropout=0.1),
        position=Learned.Config(limit=1024),
        residual=PreNorm.Config(dropout=0.1),
        final_norm=LayerNorm.Config(),
    )
