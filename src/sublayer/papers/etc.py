"""ETC: global tokens beside the text, one for each of its segments."""

from sublayer.nn.attention import EtcAttention
from sublayer.nn.model import Encoder
from sublayer.nn.position import NoPosition
from sublayer.nn.stack import EtcStack
from sublayer.papers.registry import paper


@paper(
    "etc",
    parent="bert-base",
    cite="Ainslie et al. 2020, ETC: Encoding Long and Structured Inputs in Transformers, arXiv:2004.08483",
)
def etc(base: Encoder.Config) -> Encoder.Config:
    """BERT with a global token for each segment, windows of 84 on either side, and distances instead of positions.

    The base model with all weights shared between long and global tokens: 110 M parameters. The paper has 230 global
    tokens for 4,096, one for each sentence; here segments have 18 tokens. In training, hidden segments add a loss
    (contrastive predictive coding).
    """
    attention = EtcAttention.Config(heads=12, dropout=0.1, radius=84, clip=12)
    stack = EtcStack.Config.parse(
        {
            **base.stack.dump(),
            "kind": "etc",
            "alphabet": {**base.stack.alphabet, "s": attention},
            "position": NoPosition.Config(),
            "segment": 18,
            "cpc": 0.2,
        }
    )
    return base.but(stack=stack)
