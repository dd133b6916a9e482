"""Figures 5, 8 and 9: models of characters, by what their memory is made of and by their depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sublayer.comparison import Variant
from sublayer.reproduction.claim import Claim, Finding, claim
from sublayer.reproduction.feedback.baselines import FEEDBACK, PAPER, SMALL, TRANSFORMER, base, parallel


def on_characters(
    name: str,
    where: str,
    says: str,
    smaller: str,
    variants: Sequence[Variant],
    order: Sequence[tuple[str, str]],
    changes: Mapping[str, Any],
    alike: Sequence[tuple[str, str]] = (),
) -> Claim:
    found = [Finding("bits_per_byte", "validation", "bits/byte", order, alike=alike, less_is_better=True)]
    rows = {"train.carry": False, "train.batch": 8, "train.length": 64}
    budget = {"train.tokens": 3_200_000, "train.warmup": 200, "train.lr": 6e-3}
    sizes = {**SMALL, "s.memory.length": 64, "position.clip": 64}
    scale = (
        f"{smaller}; 6,250 steps of 8 windows of 64 bytes of Python, without dropout and with nothing carried over, "
        "for 15,000 on Penn Treebank with a span of 512; a rate and a length of training at which compositions differ"
    )
    own = {**sizes, **rows, **budget, "train.eval_tokens": 100_000, **changes}
    return Claim(f"feedback/{name}", f"{PAPER}, {where}", says, scale, variants, found, own)


@claim("feedback/compositions")
def compositions() -> Claim:
    model = base("feedback")
    made = {
        "weighted": {"compose": "weighted"},
        "top only": {"compose": "top"},
        "average": {"compose": "average"},
        "layer 1": {"compose": {"kind": "layer", "layer": 1}},
        "recurrent": {"compose": "recurrent"},
    }
    return on_characters(
        "compositions",
        "figures 5 and 8",
        "What all layers or the top one made of the past is worth more than what the same and lower layers made of it; "
        "of single layers the first is worth no more than a Transformer's own.",
        "3 layers of width 64 for 6 of width 384",
        variants=[
            *(Variant(name, model, {**own, "shared": False}) for name, own in made.items()),
            Variant(TRANSFORMER, parallel(model)),
        ],
        order=[
            *(("weighted", "recurrent"), ("top only", "recurrent"), ("top only", "layer 1")),
            *(("weighted", TRANSFORMER), ("average", TRANSFORMER)),
        ],
        changes={"layout": "(sf)x3"},
        alike=[("layer 1", TRANSFORMER)],
    )


@claim("feedback/depth")
def depth() -> Claim:
    variants = []
    for layers in (1, 2, 4):
        wide = {"layout": f"(sf)x{layers}", "s.head_dim": 64 // layers, "f.inner": 1024 // layers}
        variants += [
            Variant(f"{FEEDBACK} {layers}", base("feedback"), {**wide, "shared": False}),
            Variant(f"{TRANSFORMER} {layers}", parallel(base("feedback")), wide),
        ]
    return on_characters(
        "depth",
        "figure 9",
        "With as many parameters in fewer layers a Transformer gets worse; at every depth the Feedback Transformer is "
        "better.",
        "1, 2 and 4 layers of width 64",
        variants=variants,
        order=[
            *((f"{FEEDBACK} {layers}", f"{TRANSFORMER} {layers}") for layers in (1, 2, 4)),
            (f"{TRANSFORMER} 4", f"{TRANSFORMER} 1"),
        ],
        changes={},
    )
