"""Transformer-DMCA: a decoder for long texts, whose layers see a block of tokens, or all of them compressed."""

from sublayer.nn.attention import MemoryCompressed, MultiHead
from sublayer.nn.attention.pattern import BlockLocal
from sublayer.nn.model import Decoder
from sublayer.nn.stack import Plain
from sublayer.papers.registry import paper


@paper(
    "transformer-dmca",
    parent="transformer-lm",
    cite="Liu et al. 2018, Generating Wikipedia by Summarizing Long Sequences, arXiv:1801.10198 (T-DMCA)",
)
def transformer_dmca(base: Decoder.Config) -> Decoder.Config:
    """Five layers: local, compressed, local, compressed, local, where three earlier tokens become one key.

    Source and summary are one text, of up to 11,000 tokens. Local attention stays within blocks of 256. The model
    without mixtures of experts; its letters are `l` for local and `m` for memory-compressed attention.
    """
    local = MultiHead.Config(heads=8, pattern=BlockLocal.Config(size=256, before=0))
    alphabet = {"l": local, "m": MemoryCompressed.Config(heads=8, stride=3), "f": base.stack.alphabet["f"]}
    stack = Plain.Config.parse({**base.stack.dump(), "layout": "(lfmf)x2 lf", "alphabet": alphabet})
    return base.but(stack=stack, vocab=32000)
