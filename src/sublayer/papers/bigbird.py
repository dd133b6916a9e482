"""BigBird: a window, global tokens and a few random ones, in blocks."""

from sublayer.nn.attention.pattern import BigBird
from sublayer.nn.model import Decoder, Encoder
from sublayer.papers.registry import paper

ZAHEER = "Zaheer et al. 2020, Big Bird: Transformers for Longer Sequences, arXiv:2007.14062"


@paper(
    "bigbird",
    parent="bert-base",
    cite=f"{ZAHEER} (base, internal global tokens)",
    facts={"params": 127_520_694},
)
def bigbird(base: Encoder.Config) -> Encoder.Config:
    """BERT on 4,096 tokens: blocks of 64 see their neighbours, two global blocks, and three at random.

    The global blocks are the first two of the text; the authors' code takes the first and the last.
    """
    return base.but(
        {
            "s.pattern": BigBird.Config(block=64, beside=1, globals=2, random=3),
            "f.activation": "gelu_tanh",
            "head.activation": "gelu_tanh",
            "position.limit": 4096,
        },
        vocab=50358,
    )


@paper("bigbird-causal", parent="gpt2", cite=f"our own definition, after {ZAHEER}")
def bigbird_causal(base: Decoder.Config) -> Decoder.Config:
    """GPT-2 on 4,096 tokens with BigBird's attention turned to the past; our own definition, not the paper's.

    A query sees its own block up to itself, the block before, the first two blocks, and three at random of all that
    stand before. Draws do not depend on the length, so that generation equals the parallel pass.
    """
    return base.but({"s.pattern": BigBird.Config(look="back"), "position.limit": 4096})
