"""Reformer: attention by hashing, and a reversible stack."""

from sublayer.nn.attention import Lsh
from sublayer.nn.model import Decoder
from sublayer.nn.residual import LayerNorm, PreNorm
from sublayer.nn.stack import Reversible
from sublayer.papers.registry import paper

KITAEV = "Kitaev, Kaiser & Levskaya 2020, Reformer: The Efficient Transformer, arXiv:2001.04451"


@paper("reformer", parent="transformer-lm", cite=f"{KITAEV} (the sizes of its ablations, enwik8)")
def reformer(base: Decoder.Config) -> Decoder.Config:
    """A byte model of 3 layers of 1,024: queries attend to keys of their bucket, and activations are computed twice.

    Attention looks back by our own rule, since the paper's chunks move with later tokens; see the part `lsh`. Positions
    and vectors of tokens are its parent's, the paper's positions axial; the two streams are averaged, not concatenated.
    """
    plain = base.but(
        {"s": Lsh.Config(heads=8, rounds=4, buckets=64, chunk=64), "f.inner": 4096},
        vocab=256,
        dim=1024,
        layout="(sf)x3",
        residual=PreNorm.Config(),
        final_norm=LayerNorm.Config(),
    )
    return plain.but(stack=Reversible.Config.parse({**plain.stack.dump(), "kind": "reversible"}))
