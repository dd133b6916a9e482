"""Every law over every paper and over random spellings, at odd lengths and odd cuts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sublayer
from sublayer.nn.attention import Span
from sublayer.nn.embedding import Embedding, Head
from sublayer.nn.feedforward import ACTIVATIONS, Dense
from sublayer.nn.memory import Memory
from sublayer.nn.model import Model
from sublayer.nn.part import Part
from sublayer.nn.position import Position
from sublayer.nn.residual import Add, LayerNorm, Norm, Residual
from sublayer.testing import LAWS, Case, LawBroken, around, check, small
from tests.covering import cover, examples

cuts = st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 10_000)

norms, adds = st.sampled_from(sorted(Norm.Config.registry)), st.sampled_from(sorted(Add.Config.registry))
residuals = st.one_of(
    st.fixed_dictionaries({"kind": st.just("pre_norm"), "norm": norms, "add": adds}),
    st.fixed_dictionaries({"kind": st.just("post_norm"), "norm": st.sampled_from(["layer", "rms"]), "add": adds}),
    st.fixed_dictionaries({"kind": st.just("rezero"), "norm": norms}),
    st.just({"kind": "layer_drop", "rate": 0.5}),
)
POSITIONS = [
    {"kind": "none"},
    {"kind": "sinusoidal"},
    {"kind": "learned", "limit": 96},
    {"kind": "shaw", "clip": 3},
    {"kind": "relative_key", "clip": 3},
    {"kind": "relative_xl", "scope": "stack", "clamp": 6},
    {"kind": "relative_xl", "scope": "layer"},
    {"kind": "rotary"},
    {"kind": "alibi"},
    {"kind": "distance"},
]
BACKWARDS = {"relative_xl", "relative_key"}
"""Which know distances to the past only."""
feedforwards = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["dense", "glu"]),
        "inner": st.just(24),
        "activation": st.sampled_from(sorted(ACTIVATIONS)),
        "bias": st.booleans(),
    }
)
sizes = st.sampled_from([(4, 4, None), (4, 2, None), (4, 1, None), (2, 1, 16), (8, 2, 4)])
MEMORIES = [
    {"kind": "cache"},
    {"kind": "segment", "length": 4},
    {"kind": "segment", "length": 4, "span": "exact"},
]
SPANS = [{"kind": "full"}, {"kind": "adaptive", "limit": 4, "ramp": 2, "start": 0.25}]
"""One that ends within the window: where it ends outside, nothing depends on it, and it has no gradient."""
CLUSTERS = {"cutoffs": [17, 37]}
ENDS = [
    ({"kind": "token", "scale": True}, {"kind": "tied", "bias": True}),
    ({"kind": "token", "norm": "rms"}, {"kind": "linear", "bias": True}),
    ({"kind": "token"}, {"kind": "mixture", "components": 3}),
    ({"kind": "token"}, {"kind": "label", "classes": 7, "bias": True}),
    ({"kind": "factorised", "rank": 12}, {"kind": "tied", "projection": "own"}),
    ({"kind": "factorised", "rank": 12}, {"kind": "tied", "projection": "shared"}),
    ({"kind": "adaptive", **CLUSTERS, "factor": 2}, {"kind": "adaptive_softmax", **CLUSTERS, "factor": 2}),
    (
        {"kind": "adaptive", **CLUSTERS, "factor": 1},
        {"kind": "adaptive_softmax", **CLUSTERS, "factor": 1, "tied": True},
    ),
]


@st.composite
def attentions(draw, causal: bool):
    heads, kv_heads, head_dim = draw(sizes)
    window = {"kind": "window", "size": 3, "look": "back" if causal else "both"}
    return {
        "kind": "multihead",
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "bias": draw(st.booleans()),
        "pattern": draw(st.sampled_from(["causal" if causal else "full", window])),
        "memory": draw(st.sampled_from(MEMORIES)) if causal else "none",
        "span": draw(st.sampled_from(SPANS)),
    }


@st.composite
def decoders(draw):
    embedding, head = draw(st.sampled_from(ENDS))
    one, other, position = draw(attentions(True)), draw(attentions(True)), draw(st.sampled_from(POSITIONS))
    if position["kind"] == "relative_key":  # one table for heads of one size
        other |= {name: one[name] for name in ("heads", "kv_heads", "head_dim")}
    stack = {
        "kind": "plain",
        "layout": draw(st.sampled_from(["(sf)x2", "(sft)x2", "s(f)x2 t", "(st)x2 f"])),
        "alphabet": {"s": one, "t": other, "f": draw(feedforwards)},
        "residual": draw(residuals),
        "position": position,
        "final_norm": draw(norms),
    }
    return {"kind": "decoder", "vocab": 61, "dim": 32, "embedding": embedding, "stack": stack, "head": head}


@st.composite
def encoders(draw):
    stack = {
        "kind": "plain",
        "layout": "(sf)x2",
        "alphabet": {"s": draw(attentions(False)), "f": draw(feedforwards)},
        "residual": draw(residuals),
        "position": draw(st.sampled_from([one for one in POSITIONS if one["kind"] not in BACKWARDS])),
    }
    embedding = {"kind": "token", "types": draw(st.sampled_from([0, 2]))}
    return {"kind": "encoder", "vocab": 61, "dim": 32, "embedding": embedding, "stack": stack, "head": "masked_lm"}


def distinct() -> dict[str, Model.Config]:
    """Every paper made small, those of one form once: `par-base, par-large` differ in sizes alone."""
    forms: dict[str, list[str]] = {}
    for name in sublayer.names():
        forms.setdefault(small(sublayer.config(name)).hash, []).append(name)
    return {", ".join(names): small(sublayer.config(names[0])) for names in forms.values()}


PAIRS = {f"{paper}-{law}": (config, law) for paper, config in distinct().items() for law in LAWS}


@cover("pair, cuts", PAIRS, [(3, 1, 7, 2), (5, 6), (7, 1, 2), (1, 4)])
def test_every_paper(pair, cuts):
    config, law = pair
    LAWS[law](Case(config, cuts=cuts))


@pytest.mark.parametrize("law", LAWS)
@given(data=st.data(), seed=seeds, cuts=cuts)
@settings(max_examples=examples(8))
def test_random_decoders(law, data, seed, cuts):
    LAWS[law](Case(Model.Config.parse(data.draw(decoders())), seed, cuts=cuts))


@pytest.mark.parametrize("law", LAWS)
@given(data=st.data(), seed=seeds, cuts=cuts)
@settings(max_examples=examples(4))
def test_random_encoders(law, data, seed, cuts):
    LAWS[law](Case(Model.Config.parse(data.draw(encoders())), seed, cuts=cuts))


@pytest.mark.parametrize("kind", sorted(set(Part.Config.registry) - {"cross", "mine"}))
def test_every_registered_part_by_one_call(kind):
    verdicts = check(Part.Config.parse(kind))
    assert verdicts.keys() == LAWS.keys()
    assert verdicts["causality"] == "holds"


def test_every_kind_of_every_family_is_drawn_above():
    assert {position["kind"] for position in POSITIONS} == set(Position.Config.registry)
    assert {"pre_norm", "post_norm", "rezero", "layer_drop"} == set(Residual.Config.registry)
    assert {memory["kind"] for memory in MEMORIES} | {"none"} == set(Memory.Config.registry)
    assert {span["kind"] for span in SPANS} == set(Span.Config.registry)
    assert {embedding["kind"] for embedding, _ in ENDS} == set(Embedding.Config.registry)
    others = {"masked_lm", "classify", "span"}
    assert {head["kind"] for _, head in ENDS} | others == set(Head.Config.registry)


@pytest.mark.parametrize("head", ["classify", "span"])
@pytest.mark.parametrize("law", LAWS)
def test_heads_that_do_not_speak_of_tokens(head, law):
    LAWS[law](Case(small(sublayer.config("bert-base", head=head))))


def test_a_law_that_does_not_apply_says_why():
    verdicts = check(sublayer.config("bert-base"))
    assert verdicts["causality"] == "does not apply: it reads both ways"


def test_check_refuses_what_it_knows_nothing_of():
    with pytest.raises(TypeError, match="parts and models"):
        check(LayerNorm.Config())


def test_small_keeps_the_word():
    assert small(sublayer.config("sandwich-base")).stack.layout == "(s)x2 (sf)x2 (f)x2"
    assert around(Dense.Config()).stack.layout == "(spf)x2"
    assert issubclass(LawBroken, AssertionError)
