"""BERT: the encoder alone, trained to fill in masked tokens."""

from sublayer.nn.embedding import MaskedLM, TokenEmbedding
from sublayer.nn.feedforward import Dense
from sublayer.nn.model import Encoder, EncoderDecoder
from sublayer.nn.position import Learned, Rotary
from sublayer.nn.residual import LayerNorm, PostNorm
from sublayer.papers.registry import paper


@paper(
    "bert-base",
    parent="transformer",
    cite="Devlin et al. 2019, BERT: Pre-training of Deep Bidirectional Transformers, arXiv:1810.04805",
    facts={"params": 109_514_298},
)
def bert_base(base: EncoderDecoder.Config) -> Encoder.Config:
    """The encoder alone, with GELU, learned positions and a table for which sentence a token is in."""
    norm = LayerNorm.Config(eps=1e-12)
    stack = base.encoder.but(
        {"s.heads": 12, "s.dropout": 0.1, "f": Dense.Config(activation="gelu")},
        layout="(sf)x12",
        position=Learned.Config(limit=512),
        residual=PostNorm.Config(norm=norm, dropout=0.1),
    )
    return Encoder.Config(
        vocab=30522,
        dim=768,
        embedding=TokenEmbedding.Config(types=2, norm=norm, dropout=0.1),
        stack=stack,
        head=MaskedLM.Config(norm=norm),
    )


@paper(
    "roformer",
    parent="bert-base",
    cite="Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding, arXiv:2104.09864",
)
def roformer(base: Encoder.Config) -> Encoder.Config:
    """BERT with rotary positions instead of a table of positions."""
    return base.but(position=Rotary.Config(), vocab=50000)
