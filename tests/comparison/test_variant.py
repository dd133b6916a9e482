"""Variants: their names, their folders, and pairs that cannot be compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublayer
from sublayer.cli.compare import _variant
from sublayer.comparison.variant import Variant, check_alike, check_apart, named_apart, slugs
from sublayer.nn.config import ConfigError


@given(st.lists(st.text("aB /:=.~()-é'", min_size=1, max_size=8), min_size=1, max_size=6))
def test_every_variant_has_a_folder_of_its_own(names):
    base = sublayer.config("gpt2")
    found = slugs([Variant(name, base) for name in names])
    assert len({slug.lower() for slug in found}) == len(names)
    assert all(slug and "/" not in slug and not slug.startswith(".") and " " not in slug for slug in found)


def test_a_name_says_what_is_changed():
    variant = Variant.of("gpt2", {"position": "rotary", "s.heads": [2, 4], "train.lr": 0.01})
    assert variant.name == "gpt2 position=rotary s.heads=2,4 train.lr=0.01"
    assert variant.changes == {"position": "rotary", "s.heads": [2, 4]}
    assert variant.train == {"lr": 0.01}
    assert Variant.of(variant) is variant
    assert slugs([Variant("models/mine.toml dim=8", sublayer.config("gpt2"))]) == ["mine-dim=8"]


@pytest.mark.parametrize(
    ("variants", "names"),
    [
        (["gpt2", "gpt2 position=rotary"], ["gpt2", "position=rotary"]),
        (["gpt2 dim=8 position=rotary", "gpt2 dim=8 position=alibi"], ["position=rotary", "position=alibi"]),
        (["gpt2 dim=8", "llama dim=8"], ["gpt2", "llama"]),
        (["gpt2 position=rotary", "llama"], ["gpt2 position=rotary", "llama"]),
        (["gpt2", "rotary: gpt2 position=rotary"], ["gpt2", "rotary"]),
        (["gpt2: llama", "gpt2"], ["gpt2", "2 gpt2"]),
        (
            ["gpt2 s.heads=2,2,2,2,2,2,2,2,2,2,2,2", "gpt2 s.heads=2,2,2,2,2,2,2,2,2,2,2,4", "gpt2"],
            ["1 s.heads=2,2,2,2,2,2,2,2,2,2,2,2", "2 s.heads=2,2,2,2,2,2,2,2,2,2,2,4", "gpt2"],
        ),
    ],
)
def test_names_show_what_differs(variants, names):
    """As typed on the command line; no two begin alike."""
    found = [variant.name for variant in named_apart([_variant(text) for text in variants])]
    assert found == names


@pytest.mark.parametrize("key", ["train.steps", "train.batch", "train.seed", "data.tokenizer"])
def test_what_must_be_the_same_for_all(key):
    with pytest.raises(ConfigError, match=f"{key}: .* for all"):
        Variant.of("gpt2", {key: 1})


def test_what_cannot_be_compared():
    gpt2, bert = Variant.of("gpt2"), Variant.of("bert-base")
    with pytest.raises(ConfigError, match="gpt2: given twice"):
        check_alike([gpt2, gpt2])
    same = Variant.of("gpt2", {"dim": 768})
    with pytest.raises(ConfigError, match="gpt2 dim=768: the same model as gpt2"):
        check_apart([gpt2, same], [gpt2.base, gpt2.base])
    other = Variant.of("gpt2", {"train.lr": 0.01})
    check_apart([gpt2, other], [gpt2.base, gpt2.base])
    with pytest.raises(ConfigError, match="bert-base: encoder models and decoder models"):
        check_alike([gpt2, bert])
