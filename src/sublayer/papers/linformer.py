"""Linformer: an encoder that attends to few sums of all keys."""

from sublayer.nn.attention.kernel import Linformer
from sublayer.nn.model import Encoder
from sublayer.nn.position import Learned
from sublayer.nn.residual import LayerNorm
from sublayer.papers.registry import paper


@paper(
    "linformer",
    parent="bert-base",
    cite="Wang et al. 2020, Linformer: Self-Attention with Linear Complexity, arXiv:2006.04768",
)
def linformer(base: Encoder.Config) -> Encoder.Config:
    """RoBERTa on 512 tokens whose keys and values become 256 slots, by one matrix for both in each layer.

    Of the paper's models this is n = 512, k = 256 with key-value sharing: 12 matrices in 12 layers. Headwise sharing,
    with 24, is `s.kernel.share=heads`; layerwise sharing, with one in all, is `s.kernel.share=layers`.
    """
    norm = LayerNorm.Config(eps=1e-5)
    norms = {"embedding.norm": norm, "residual.norm": norm, "head.norm": norm}
    kernel = Linformer.Config(rank=256, limit=512, share="keys_values")
    position = Learned.Config(limit=512, offset=2)
    return base.but({"s.kernel": kernel, "embedding.types": 1, **norms}, vocab=50265, position=position)
