"""Compressive Transformer: what leaves Transformer-XL's memory is compressed instead of forgotten."""

from sublayer.nn.memory import Compressive
from sublayer.nn.model import Decoder
from sublayer.papers.registry import paper


@paper(
    "compressive",
    parent="transformer-xl-24",
    cite="Rae et al. 2019, Compressive Transformers for Long-Range Sequence Modelling, arXiv:1911.05507 (enwik8)",
)
def compressive(base: Decoder.Config) -> Decoder.Config:
    """Transformer-XL's byte model with a second memory: older tokens, three to a slot, by a learned convolution.

    Every layer has a compressor of its own, which learns only that attention reads the same from the slots as from the
    tokens they are made of. 768 tokens and 1,152 slots reach 4,224 tokens back at the cost of 1,920. The model has
    277 M parameters without its compressors, as Transformer-XL of these sizes has. `eval --memory` reads with longer
    memories than those of training.
    """
    return base.but(
        {"s.heads": 8, "s.memory": Compressive.Config(length=768, compressed=1152, rate=3), "f.inner": 3072},
        dim=1024,
        layout="(sf)x24",
    ).but({"position.clamp": None})
