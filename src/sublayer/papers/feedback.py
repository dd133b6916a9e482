"""Feedback Transformer: every layer reads what all layers made of the past."""

from sublayer.nn.attention import AdaptiveSpan
from sublayer.nn.embedding import LinearHead, TokenEmbedding
from sublayer.nn.memory import Segment
from sublayer.nn.model import Decoder
from sublayer.nn.position import RelativeKey
from sublayer.nn.residual import LayerNorm, PreNorm
from sublayer.nn.stack import Feedback
from sublayer.papers.registry import paper

FAN = "Fan et al. 2020, Addressing Some Limitations of Transformers with Feedback Memory, arXiv:2002.09402"


@paper("feedback", parent="transformer-lm", cite=f"{FAN} (Table 9, char-PTB)")
def feedback(base: Decoder.Config) -> Decoder.Config:
    """One memory of earlier tokens, made from the outputs of all layers and read by all: token after token.

    The model of characters, on bytes; with a projection to keys and values for each layer (shared=false) and the 50
    characters of Penn Treebank (vocab=50) it has the 10.7 M parameters of Table 9. Norms before the parts, a trained
    vector on keys for each of 512 distances.

    Weights start much as in the authors' code: vectors of tokens and distances with a deviation of 1, so that the
    memory of a token identifies it from the first step on, and matrices with a deviation of 1/√inputs.
    """
    memory = Segment.Config(length=512, span="exact")
    stack = Feedback.Config.parse(
        {
            **base.stack.dump(),
            "kind": "feedback",
            "layout": "(sf)x6",
            "residual": PreNorm.Config(),
            "position": RelativeKey.Config(clip=512, spread="unit"),
            "final_norm": LayerNorm.Config(),
            "spread": "width",
        }
    )
    changes = {"s.heads": 4, "s.bias": False, "s.dropout": 0.5, "s.memory": memory, "f.inner": None, "f.dropout": 0.5}
    tokens = TokenEmbedding.Config(spread="unit")
    return base.but(stack=stack, vocab=256, dim=384, embedding=tokens, head=LinearHead.Config()).but(changes)


@paper("feedback-tasks", parent="feedback", cite=f"{FAN} (Table 9, random walk and algorithmic)")
def feedback_tasks(base: Decoder.Config) -> Decoder.Config:
    """Four layers that track a state over 100 tokens, each with its own projection to keys and values: 3.2 M."""
    changes = {"s.memory.length": 100, "s.dropout": 0.2, "f.dropout": 0.2, "position.clip": 100}
    return base.but(changes, vocab=32, dim=256, layout="(sf)x4", shared=False)


@paper("feedback-enwik8", parent="feedback", cite=f"{FAN} (Table 9, enwik8)")
def feedback_enwik8(base: Decoder.Config) -> Decoder.Config:
    """Twelve layers with wide heads that learn how far to look, each with its own keys and values: 77 M."""
    changes = {"s.heads": 8, "s.head_dim": 128, "s.memory.length": 8192, "f.inner": 4096, "position.clip": 8192}
    span = AdaptiveSpan.Config(limit=8192, loss=5e-7)
    return base.but({**changes, "s.span": span}, dim=512, layout="(sf)x12", shared=False)
