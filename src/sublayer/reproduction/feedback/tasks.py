"""Claims of the Feedback Transformer (Fan et al. 2020): tasks, what the memory is made of, depth, speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sublayer.comparison import Variant
from sublayer.measurement import Setting
from sublayer.nn.model import Decoder
from sublayer.nn.stack import Feedback, Plain
from sublayer.papers import registry
from sublayer.reproduction.claim import Claim, Finding, claim

FEEDBACK, TRANSFORMER = "Feedback", "Transformer"
PAPER = "Fan et al. 2020"
SMALL = {"dim": 64, "layout": "(sf)x2", "s.heads": 4, "s.dropout": 0.0, "f.dropout": 0.0}
ALONE = {"train.carry": False, "train.batch": 32, "train.warmup": 100, "data.valid": 200, "data.test": 500}
"""An episode a row."""
OTHERWISE = {"counting-long": "counting", "algorithmic-3": "algorithmic", "algorithmic-5": "algorithmic"}
"""Tasks of claims that are not named after theirs."""


def base(name: str) -> Decoder.Config:
    found = registry.config(name)
    assert isinstance(found, Decoder.Config)
    return found


def parallel(config: Decoder.Config) -> Decoder.Config:
    """The same sublayers, sizes and positions in a plain stack: a Transformer, all places at once."""
    own = set(Feedback.Config.model_fields) - set(Plain.Config.model_fields)
    stack = {key: value for key, value in config.stack.dump().items() if key not in own}
    return config.but(stack=Plain.Config.parse({**stack, "kind": "plain"}))


def pair(name: str) -> tuple[Variant, Variant]:
    return Variant(FEEDBACK, base(name)), Variant(TRANSFORMER, parallel(base(name)))


# Table 1: tasks


def right(what: str, transformer: float, feedback: float, figure: str = "test.accuracy") -> Finding:
    paper = {FEEDBACK: feedback, TRANSFORMER: transformer}
    return Finding(figure, what, "%", [(FEEDBACK, TRANSFORMER)], paper, form=lambda share: 100 * share)


def on_task(
    name: str,
    says: str,
    shorter: str,
    found: Sequence[Finding],
    remembers: int,
    own: Mapping[str, Any],
    layers: str = "2 layers",
) -> Claim:
    """remembers: how many places; own: keys of model, data and train."""
    sizes = {**SMALL, "s.memory.length": remembers, "position.clip": remembers}
    scale = f"{layers} of width 64 for 4 of width 256; {shorter}"
    return Claim(
        f"feedback/{name}",
        f"{PAPER}, Table 1",
        says,
        scale,
        pair("feedback-tasks"),
        found,
        {**sizes, **ALONE, **own},
        f"task:{OTHERWISE.get(name, name)}",
    )


def repeated(name: str, says: str, char: tuple[float, float], whole: tuple[float, float]) -> Claim:
    """Of lengths that vary, with distances that look alike beyond those of training: else a fixed distance is all that
    is learned, and nothing longer is ever right."""
    found = [right("digits", *char), right("whole sequences", *whole, "test.sequence_accuracy")]
    own = {"data.length": 20, "data.shortest": 1, "data.test_length": 200, "position.clip": 20}
    budget = {"data.episodes": 200_000, "train.steps": 4000, "train.lr": 2e-3}
    return on_task(name, says, "up to 20 digits, then 200, for 40, then 400", found, 400, {**own, **budget})


@claim("feedback/copy")
def copy() -> Claim:
    says = "Trained to copy digits, it copies ten times as many better than a Transformer."
    return repeated("copy", says, (59.1, 76.2), (6.2, 23.6))


@claim("feedback/reverse")
def reverse() -> Claim:
    says = "Trained to reverse digits, it reverses ten times as many better than a Transformer."
    return repeated("reverse", says, (50.2, 74.8), (5.9, 29.2))


def counted(transformer: float, feedback: float) -> Finding:
    """Whole sequences: of the letters alone, one that never ends gets more right than the paper's Transformer."""
    return right("whole sequences", transformer, feedback, "test.sequence_accuracy")


@claim("feedback/counting")
def counting() -> Claim:
    says = "It counts short sequences as well as a Transformer."
    found = [replace(counted(99.6, 99.7), order=(), alike=[(FEEDBACK, TRANSFORMER)])]
    own = {"data.length": 25, "train.steps": 3000, "train.lr": 1e-3}
    return on_task("counting", says, "up to 25 letters for 50", found, 51, own)


@claim("feedback/counting-long")
def counting_long() -> Claim:
    says, found = "It counts long sequences better than a Transformer.", [counted(82.4, 95.3)]
    own = {"data.length": 100, "train.batch": 16, "train.steps": 2000, "train.lr": 1e-3}
    return on_task("counting-long", says, "up to 100 letters for 1,000", found, 201, own)


@claim("feedback/random-walk")
def random_walk() -> Claim:
    says = "It knows where a walker is after many steps and turns; a Transformer of its size does not."
    own = {"data.size": 5, "data.length": 32, "data.episodes": 50_000, "train.steps": 2000, "train.lr": 2e-3}
    grown = {"train.grow_from": 8, "train.grow_over": 700}
    shorter, found = "32 actions on a grid of 5×5 for 100 on 8×8", [right("places", 68.0, 100.0)]
    return on_task("random-walk", says, shorter, found, 32, {**own, **grown})


def programs(variables: int, transformer: float, feedback: float) -> Claim:
    says = f"It runs programs with {variables} variables; a Transformer of its size does not."
    data = {"data.variables": variables, "data.length": 12, "data.asked": "name", "data.episodes": 200_000}
    begun = {"layout": "(sf)x1", "embedding.norm": "layer", "embedding.spread": "fixed", "position.spread": "fixed"}
    rows = {"train.batch": 128, "train.grow_from": 40, "train.grow_over": 400}
    budget = {"train.steps": 2400, "train.lr": 1.5e-3}
    found = [right("printed values", transformer, feedback)]
    shorter = "programs of 12 statements for 100, asked at the printed name, not at the `;` after it"
    return on_task(
        f"algorithmic-{variables}", says, shorter, found, 110, {**data, **begun, **rows, **budget}, "1 layer"
    )


@claim("feedback/algorithmic-3")
def algorithmic_3() -> Claim:
    return programs(3, 33.7, 99.1)


@claim("feedback/algorithmic-5")
def algorithmic_5() -> Claim:
    return programs(5, 37.5, 92.6)


# Figures 5, 8 and 9: characters


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
    scale = f"{smaller}; 3.2 M bytes of Python, 64 at a time, for 15,000 steps on Penn Treebank with a span of 512"
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
        "With as many parameters in fewer layers, a Transformer loses much and a Feedback Transformer little.",
        "1, 2 and 4 layers of width 64",
        variants=variants,
        order=[
            *((f"{FEEDBACK} {layers}", f"{TRANSFORMER} {layers}") for layers in (1, 2, 4)),
            (f"{TRANSFORMER} 4", f"{TRANSFORMER} 1"),
        ],
        changes={},
    )


# Table 5: speed


@claim("feedback/speed")
def speed() -> Claim:
    sizes = {"dim": 256, "layout": "(sf)x4", "s.heads": 4, "s.memory.length": 128, "position.clip": 128}
    quiet = {"s.dropout": 0.0, "f.dropout": 0.0}
    budget = {
        "train.steps": 30,
        "train.batch": 16,
        "train.length": 128,
        "train.log_every": 1,
        "train.eval_tokens": 2048,
    }
    return Claim(
        "feedback/speed",
        f"{PAPER}, Table 5",
        "It trains more slowly than a Transformer, and writes faster: one set of keys and values serves all layers.",
        "4 layers of width 256 on 16 rows of 128 places, and 64 rows to write; the paper's had 126 M and a GPU",
        pair("feedback"),
        [
            Finding(
                *("tokens_per_second", "training", "tokens/s", [(TRANSFORMER, FEEDBACK)]),
                {FEEDBACK: 84_400, TRANSFORMER: 296_000},
            ),
            Finding(
                *("latency.latency", "writing", "tokens/s", [(FEEDBACK, TRANSFORMER)]),
                {FEEDBACK: 2176, TRANSFORMER: 592},
                form=lambda seconds: 64 / seconds,
            ),
        ],
        {**sizes, **quiet, **budget},
        setting=Setting(task="token", length=128, batch=64),
    )
