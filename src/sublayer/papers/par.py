"""PAR: pay attention when required. The rule applies to any base: `layout=par(5)`."""

from sublayer.nn.model import Decoder, Encoder
from sublayer.papers.registry import paper

MANDAVA = "Mandava, Migacz & Fit-Florea 2020, Pay Attention when Required, arXiv:2009.04534"


@paper("par-base", parent="transformer-xl-base", cite=MANDAVA, facts={"params": 199_840_218})
def par_base(base: Decoder.Config) -> Decoder.Config:
    """Transformer-XL base with one attention in five sublayers, all within the first two thirds.

    Its equations 2–3 write a norm before each part; counts and speed are the same as with the base's norm after it.
    """
    return base.but(layout="par(5)")


@paper("par-large", parent="transformer-xl-large", cite=MANDAVA)
def par_large(base: Decoder.Config) -> Decoder.Config:
    """Transformer-XL large with one attention in five sublayers, all within the first two thirds."""
    return base.but(layout="par(5)")


@paper("par-24", parent="transformer-xl-24", cite=MANDAVA)
def par_24(base: Decoder.Config) -> Decoder.Config:
    """The byte model with one attention in five sublayers, all within the first two thirds."""
    return base.but(layout="par(5)")


@paper("par-bert-base", parent="bert-base", cite=MANDAVA)
def par_bert_base(base: Encoder.Config) -> Encoder.Config:
    """BERT base with one attention in five sublayers, all within the first two thirds."""
    return base.but(layout="par(5)")
