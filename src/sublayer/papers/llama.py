"""Llama: the decoder as most open models spell it today."""

from sublayer.nn.embedding import LinearHead, TokenEmbedding
from sublayer.nn.feedforward import Glu
from sublayer.nn.model import Decoder
from sublayer.nn.position import Rotary
from sublayer.nn.residual import PreNorm, RMSNorm
from sublayer.papers.registry import paper


@paper(
    "llama",
    parent="gpt2",
    cite="Touvron et al. 2023, LLaMA: Open and Efficient Foundation Language Models, arXiv:2302.13971",
    facts={"params": 6_738_415_616},
)
def llama(base: Decoder.Config) -> Decoder.Config:
    """Rotary positions, RMSNorm, SwiGLU, no biases, an untied head; the 7B model's sizes."""
    norm = RMSNorm.Config(eps=1e-6)
    return base.but(
        {
            "s.heads": 32,
            "s.bias": False,
            "s.dropout": 0.0,
            "f": Glu.Config(inner=11008, activation="swish"),
        },
        vocab=32000,
        dim=4096,
        layout="(sf)x32",
        embedding=TokenEmbedding.Config(),
        position=Rotary.Config(),
        residual=PreNorm.Config(norm=norm),
        final_norm=norm,
        head=LinearHead.Config(),
    )
