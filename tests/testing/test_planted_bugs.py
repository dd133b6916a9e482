"""The laws can fail: each bug that others ship, planted, is caught by the law that should catch it."""

from dataclasses import replace

import pytest
import torch
from pydantic import model_serializer

import sublayer
from sublayer.nn import scene as scenes
from sublayer.nn.attention.pattern import base as pattern
from sublayer.nn.config import Config
from sublayer.nn.feedforward import Dense
from sublayer.nn.memory import KeyValues
from sublayer.nn.model import decoder
from sublayer.nn.part import Part
from sublayer.nn.position import learned, relative_xl, shaw
from sublayer.nn.state import Growing
from sublayer.testing import LAWS, Case, LawBroken, around, small


def breaks(law: str, config: Config, message: str | None = None, *, long: bool = False) -> None:
    case = Case(config)
    with pytest.raises(LawBroken, match=message):
        LAWS[law](case.lengthened(137) if long else case)


@pytest.fixture
def gpt2():
    return small(sublayer.config("gpt2"))


@pytest.fixture
def xl():
    return small(sublayer.config("transformer-xl-base"))


def test_without_a_bug_they_hold(xl):
    case = Case(xl.but({"s.memory.span": "exact"}))
    for name, law in LAWS.items():
        assert law(case).holds, name


def test_a_cache_off_by_one(gpt2, xl, monkeypatch):
    last = Growing.last
    monkeypatch.setattr(Growing, "last", lambda self, count: last(self, count).roll(1, self.axis))
    breaks("segmentation", gpt2)
    breaks("segmentation", xl)


def test_a_cache_that_forgets_its_first_entry(gpt2, monkeypatch):
    append = Growing.append
    monkeypatch.setattr(Growing, "append", lambda self, x, keep=None: append(self, x, self.length - 1))
    with pytest.raises((LawBroken, RuntimeError)):
        LAWS["segmentation"](Case(gpt2))


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "alibi", "distance", "shaw"])
def test_positions_not_shifted_by_the_memory(position, monkeypatch):
    class Unshifted(scenes.Scene):
        def positions(self, memory):
            return torch.arange(memory + self.length)[None]

    open_scene = decoder.open_scene

    def unshifted(ids, vocab, state, *rest):
        made = open_scene(ids, vocab, state, *rest)
        return Unshifted(torch.arange(made.length)[None], made.start) if made.even else made

    monkeypatch.setattr(decoder, "open_scene", unshifted)
    breaks("segmentation", small(sublayer.config("gpt2", position=position)))


def test_learned_positions_not_shifted_by_the_memory(gpt2, monkeypatch):
    monkeypatch.setattr(learned.Learned, "embed", lambda self, x_BLD, scene: x_BLD + self.weight[: scene.length])
    breaks("segmentation", gpt2)


def test_distances_not_shifted_by_the_memory(xl, monkeypatch):
    skew = relative_xl.skew
    monkeypatch.setattr(relative_xl, "skew", lambda scores: skew(scores.roll(1, -1)))
    breaks("oracle", xl)


def test_an_inverted_mask(gpt2, monkeypatch):
    made = pattern._sight

    def inverted(*asked):
        seen = made(*asked)
        return seen if seen.mask_BHLM is None else pattern.Sight(~seen.mask_BHLM)

    monkeypatch.setattr(pattern, "_sight", inverted)
    breaks("segmentation", gpt2)
    breaks("padding", gpt2)


def test_padding_that_leaks(gpt2, monkeypatch):
    made = pattern._sight
    monkeypatch.setattr(
        pattern,
        "_sight",
        lambda scene, *rest: made(replace(scene, valid_BL=None, past_i_BP=None, past_valid_BP=None), *rest),
    )
    breaks("padding", gpt2)
    breaks("empty memory", gpt2)


def test_a_top_left_causal_mask_with_a_cache(gpt2, monkeypatch):
    monkeypatch.setattr(
        pattern,
        "lower",
        lambda scene, memory: torch.ones(1, 1, scene.length, memory + scene.length, dtype=torch.bool).tril(),
    )
    breaks("segmentation", gpt2)


class Leaky(Part):
    """Gathers the token with the largest norm of the whole segment: the future leaks through an index."""

    class Config(Part.Config, tag="leaky"):
        def params(self, slot):
            return 0

        def flops(self, slot, work):
            return 0

    def __init__(self, config, slot):
        super().__init__()

    def forward(self, x_BLD, scene, state=None):
        loudest_B11 = x_BLD.norm(dim=-1).argmax(1)[:, None, None]
        return x_BLD.gather(1, loudest_B11.expand(-1, 1, x_BLD.shape[-1])) + 0 * x_BLD, None


def test_a_leak_through_a_gather():
    breaks("causality", around(Leaky.Config()))


def test_a_gather_at_the_wrong_edge(monkeypatch):
    edges = shaw.Shaw._edges
    monkeypatch.setattr(shaw.Shaw, "_edges", lambda self, scene, memory: (edges(self, scene, memory) + memory) % 7)
    breaks("segmentation", small(sublayer.config("gpt2")).but(position="shaw").but({"position.clip": 3}))


class Forgetful(Part):
    class Config(Dense.Config, tag="forgetful"):
        @model_serializer(mode="wrap")
        def _with_kind(self, handler):
            return {"kind": self.tag, **{name: value for name, value in handler(self).items() if name != "inner"}}

        def build(self, slot):
            return Dense(self, slot)


def test_a_field_dropped_on_dump():
    config = around(Dense.Config()).but({"p": Dense.Config()})
    alphabet = {**config.stack.alphabet, "p": Forgetful.Config(inner=20)}
    stack = type(config.stack)(layout=config.stack.layout, alphabet=alphabet)
    config = type(config)(vocab=config.vocab, dim=config.dim, stack=stack)
    breaks("round trip", config, "stack.alphabet.p.inner")


def test_a_wrong_count(gpt2, monkeypatch):
    monkeypatch.setattr(Dense.Config, "params", lambda self, slot: 1)
    breaks("cost = count", gpt2, "parameters")
    monkeypatch.undo()
    monkeypatch.setattr(Dense.Config, "flops", lambda self, slot, work: 1)
    breaks("cost = count", gpt2, "FLOPs")


def test_a_parameter_that_nothing_uses(gpt2, monkeypatch):
    build = Dense.__init__

    def with_spare(self, config, slot):
        build(self, config, slot)
        self.spare = torch.nn.Parameter(torch.zeros(3))

    monkeypatch.setattr(Dense, "__init__", with_spare)
    breaks("gradients", gpt2, "spare")


def test_a_state_that_may_be_used_twice(gpt2, monkeypatch):
    monkeypatch.setattr("sublayer.nn.state.State.take", lambda self: None)
    breaks("state is a value", gpt2, "consumed")


def test_forks_that_share_buffers(gpt2, monkeypatch):
    monkeypatch.setattr(KeyValues, "map", lambda self, change: self)
    breaks("state is a value", gpt2, "fork")
