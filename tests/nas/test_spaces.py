"""Named spaces: the papers' tables lie in theirs, and all of them can be drawn from."""

from random import Random

import pytest

import sublayer
from sublayer.nas import SPACES, Choice, find, read
from sublayer.nn.config import ConfigError
from tests.papers.lts_tables import ROWS

BACKBONES = {"transformer-xl": "lts-transformer-xl", "gpt2": "lts-gpt2", "opt-350m": "lts-opt"}


def config_of(row):
    keys = {"dim": row.dim, "layout": f"(sf)x{row.layers}", "s.heads": list(row.heads), "f.inner": list(row.inner)}
    return sublayer.config(row.backbone, {**keys, **({"vocab": 50264} if row.backbone == "gpt2" else {})})


@pytest.mark.parametrize("backbone", BACKBONES)
def test_rows_of_the_tables_lie_in_their_space(backbone):
    space = find(BACKBONES[backbone])
    outside = [(row.table, row.name) for row in ROWS if row.backbone == backbone and config_of(row) not in space]
    # Printed with a width of 1480, which is no multiple of 64.
    assert outside == ([(3, "M17")] if backbone == "opt-350m" else [])


@pytest.mark.parametrize("backbone", ["transformer-xl", "gpt2"])
def test_homogeneous_spaces_lie_in_the_others(backbone):
    alike, free = find(f"{BACKBONES[backbone]}-homogeneous"), find(BACKBONES[backbone])
    rng = Random(0)
    assert all(alike.config(alike.sample(rng)) in free for _ in range(5))
    varied = next(row for row in ROWS if row.backbone == backbone and len(set(row.inner)) > 1)
    assert config_of(varied) not in alike


@pytest.mark.parametrize("name", SPACES)
def test_every_space_can_be_drawn_from_with_any_vocabulary(name):
    space = find(name).fitted(100)
    rng = Random(0)
    drawn = [space.candidate(space.sample(rng)) for _ in range(20)]
    assert all(one is not None and one.config.vocab == 100 and one.config in space for one in drawn)
    assert len({one.hash for one in drawn}) == 20
    assert SPACES[name].summary.endswith(".")
    assert space.size > 4


def test_orders_kinds_and_positions_are_chosen_in_our_own():
    space, rng = find("sublayers"), Random(0)
    drawn = [space.config(space.sample(rng)) for _ in range(60)]
    assert {config.stack.position.tag for config in drawn} >= {"rotary", "alibi"}
    assert {config.stack.alphabet["f"].tag for config in drawn} == {"dense", "glu"}
    assert len({config.stack.layout for config in drawn}) > 15
    assert any(config.stack.layout.startswith("(s)x") for config in drawn)
    assert all(config.cost().params < 60e6 for config in drawn)


def test_read():
    space = read("gpt2", {"dim": "64..128/32", "s.heads": 2, "layout": Choice(("(sf)x2", "par(4)")), "vocab": 9})
    assert set(space.choices) == {"dim", "layout"}
    assert (space.base.vocab, space.base.stack.alphabet["s"].heads) == (9, 2)
    assert space.choices["layout"].values == ("(sf)x2", sublayer.config("gpt2", layout="par(4)").stack.layout)
    assert set(read("lts-gpt2", {"layout": "(sf)x3"}).choices) == {"dim", "s.heads", "f.inner"}
    assert read("gpt2", {"dim": 64, "s.heads": "2|4"}).base.dim == 64  # which GPT-2's own heads would not go with
    assert [str(rule) for rule in read("gpt2", {"dim": "4|8"}, ["dim<768*dim"]).rules] == ["dim<768*dim"]
    with pytest.raises(ConfigError, match=r"unknown paper 'gtp2'; did you mean gpt2.* Spaces are lts-transformer-xl"):
        read("gtp2")
    with pytest.raises(ConfigError, match="the space is empty: nothing is to be chosen"):
        read("gpt2", {"dim": 96})
    with pytest.raises(ConfigError, match="unknown space"):
        find("lts")
