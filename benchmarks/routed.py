"""Routing attention as contestants of linear.py: ours, and that of routing-transformer (lucidrains).

Windows of 256 tokens, and as many centroids as make windows times centroids the length of the text, as in the paper.
What is timed is all between the projections: normalising, finding the clusters, sorting, attention, the state, and what
centroids collect for their next step. Looking back, queries are the keys, so what is given as keys is not used.

routing-transformer's form that looks back leaks the future, so only the one that looks both ways takes part, with
queries and keys that are not shared. On what `pass_of` gives, with our centroids in it, it agrees with ours to 1e-5.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from passes import HEAD, HEADS, Attend
from torch import Tensor

WINDOW = 256
BACK, BOTH, PEER = "routing", "routing, both ways", "routing-transformer, both ways"
OURS = {BACK: "back", BOTH: "both"}
NAMES = (*OURS, PEER)
MISSING = () if find_spec("routing_transformer") else (PEER,)
"""Contestants whose package is not installed (pip install routing-transformer); they are left out."""
PACKAGES = () if MISSING else ("routing-transformer",)
GOALS: tuple[tuple[str, str, int, float], ...] = (
    (BACK, "dense, ours", 4096, 1.0),
    (BACK, "dense, ours", 16384, 1.0),
    (BOTH, PEER, 4096, 1.0),
)
MOST_EXPONENT = 1.6
"""Of the length: centroids grow with it, and each token is compared with all."""


def attend(name: str, length: int) -> Attend:
    clusters = max(1, length // WINDOW)
    return ours(OURS[name], length, clusters) if name in OURS else routing_transformer(length, clusters)


def ours(look: str, length: int, clusters: int) -> Attend:
    from sublayer.nn.attention import Routing
    from sublayer.nn.part import Slot
    from sublayer.nn.scene import Scene

    config = Routing.Config.parse(
        {"kind": "routing", "heads": HEADS, "clusters": clusters, "window": WINDOW, "look": look}
    )
    part = config.build(Slot(HEADS * HEAD))
    return lambda q, k, v: part.attend(q, k, v, Scene(torch.arange(length)[None]))[0]


def routing_transformer(length: int, clusters: int) -> Attend:
    from routing_transformer import KmeansAttention

    module = KmeansAttention(clusters, WINDOW, HEADS, HEAD, causal=False, shared_qk=False)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return module(q, k, v)[0]

    return attend
