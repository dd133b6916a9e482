"""The first Transformer, and its decoder alone as a language model."""

from sublayer.nn.attention import Cross, Full, MultiHead
from sublayer.nn.embedding import TiedHead, TokenEmbedding
from sublayer.nn.feedforward import Dense
from sublayer.nn.memory import NoMemory
from sublayer.nn.model import Decoder, EncoderDecoder
from sublayer.nn.position import Sinusoidal
from sublayer.nn.residual import PostNorm
from sublayer.nn.stack import Plain
from sublayer.papers.registry import paper

VASWANI = "Vaswani et al. 2017, Attention Is All You Need, arXiv:1706.03762"


@paper("transformer", cite=VASWANI)
def transformer() -> EncoderDecoder.Config:
    """Attention in place of recurrence: an encoder that sees both ways, a decoder that looks at it.

    The base model of Table 3, with one matrix for source, target and output. Deviations from the paper: the projections
    of attention have biases; the authors' code has none (bias=false on s and c).
    """
    attention, cross, feedforward = MultiHead.Config(heads=8), Cross.Config(heads=8), Dense.Config(inner=2048)
    shared = {"residual": PostNorm.Config(dropout=0.1), "position": Sinusoidal.Config()}
    reading = MultiHead.Config(heads=8, pattern=Full.Config(), memory=NoMemory.Config())
    return EncoderDecoder.Config(
        vocab=37000,
        dim=512,
        embedding=TokenEmbedding.Config(scale=True, dropout=0.1),
        encoder=Plain.Config(layout="(sf)x6", alphabet={"s": reading, "f": feedforward}, **shared),
        decoder=Plain.Config(layout="(scf)x6", alphabet={"s": attention, "c": cross, "f": feedforward}, **shared),
        head=TiedHead.Config(),
    )


@paper("transformer-lm", parent="transformer", cite=VASWANI)
def transformer_lm(base: EncoderDecoder.Config) -> Decoder.Config:
    """The decoder alone: no source, so no cross-attention."""
    alphabet = {letter: part for letter, part in base.decoder.alphabet.items() if letter != "c"}
    decoder = Plain.Config.parse({**base.decoder.dump(), "layout": "(sf)x6", "alphabet": alphabet})
    return Decoder.Config(vocab=base.vocab, dim=base.dim, embedding=base.embedding, stack=decoder, head=base.head)
