"""Blockwise BERT: each head sees one block of tokens, its own or another."""

from sublayer.nn.attention.pattern import Blockwise
from sublayer.nn.model import Encoder
from sublayer.papers.registry import paper


@paper(
    "blockwise-bert",
    parent="bert-base",
    cite="Qiu et al. 2020, Blockwise Self-Attention for Long Document Understanding, arXiv:1911.02972",
    facts={"params": 109_514_298},
)
def blockwise_bert(base: Encoder.Config) -> Encoder.Config:
    """Texts of 512 in two blocks: ten heads see their own block, two see the other one.

    A pattern has no weights, so there are as many as in BERT. Attention costs half as much.
    """
    orders = ((0, 1),) * 5 + ((1, 0),)
    return base.but({"s.pattern": Blockwise.Config(size=256, orders=orders)})
