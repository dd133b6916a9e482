"""Config: open registries, round trips, overrides, errors with their path."""

import pytest

from sublayer.nn.attention import MultiHead
from sublayer.nn.attention.pattern import Strided, Window
from sublayer.nn.config import Config, ConfigError
from sublayer.nn.feedforward import Dense
from sublayer.nn.model import Decoder, Model
from sublayer.nn.part import Part, Slot
from sublayer.nn.position import Position, Rotary
from sublayer.nn.residual import PreNorm, Residual
from sublayer.nn.stack import Plain, Stack


class Mine(Part):
    """A third-party part: nothing in the package knows it."""

    class Config(Part.Config, tag="mine"):
        width: int = 7
        names: tuple[str, ...] = ("a",)

        def params(self, slot: Slot) -> int:
            return self.width

        def flops(self, slot, work):
            return 0


@pytest.fixture
def config():
    alphabet = {"s": MultiHead.Config(heads=4), "f": Dense.Config(inner=24), "m": Mine.Config(width=9)}
    return Decoder.Config(vocab=61, dim=32, stack=Plain.Config(layout="(sf)x2 m", alphabet=alphabet))


def test_a_third_partys_part_survives_the_round_trip(config):
    for again in (Model.Config.from_json(config.to_json()), Model.Config.from_toml(config.to_toml())):
        assert again == config
        assert again.hash == config.hash
        assert isinstance(again.stack.alphabet["m"], Mine.Config)
        assert again.stack.alphabet["m"].width == 9


def test_a_field_takes_an_instance_a_name_or_a_table():
    for given in (Rotary.Config(), "rotary", {"kind": "rotary"}):
        assert Plain.Config(alphabet={"s": "multihead", "f": "dense"}, position=given).position == Rotary.Config()


def test_a_config_of_another_family_is_refused():
    with pytest.raises(ConfigError, match=r"position: 'dense' is a part, expected a position"):
        Plain.Config(alphabet={"s": "multihead", "f": "dense"}, position=Dense.Config())


def test_loading_imports_nothing_named_inside(config):
    data = config.dump()
    data["stack"]["alphabet"]["m"]["kind"] = "os.system"
    with pytest.raises(ConfigError, match=r"unknown part kind 'os\.system'"):
        Model.Config.parse(data)


def test_a_config_knows_its_class():
    assert Rotary.Config.owner is Rotary
    assert isinstance(Residual.Config.parse("pre_norm"), PreNorm.Config)


def test_a_taken_kind_is_refused():
    with pytest.raises(ConfigError, match="part kind 'dense' is taken"):

        class Other(Part):
            class Config(Part.Config, tag="dense"):
                pass


def test_configs_are_frozen(config):
    with pytest.raises(ValueError, match="frozen"):
        config.dim = 64


def test_overrides_look_through_the_stack_and_the_alphabet(config):
    changed = config.but({"s.heads": 2, "f.inner": 48, "position": "rotary", "position.base": 500.0}, dim=64)
    assert changed.dim == 64
    assert changed.stack.alphabet["s"].heads == 2
    assert changed.stack.alphabet["f"].inner == 48
    assert changed.stack.position == Rotary.Config(base=500.0)
    assert config.dim == 32


def test_a_list_varies_a_letter_and_a_scalar_takes_it_back(config):
    varied = config.but({"s.heads": [2, 4], "f.inner": [8, 16]})
    assert varied.stack.vary == {"s.heads": [2, 4], "f.inner": [8, 16]}
    assert [getattr(part, "heads", None) for part in varied.stack.parts] == [2, None, 4, None, None]
    assert varied.but({"s.heads": 8}).stack.vary == {"f.inner": [8, 16]}


def test_a_list_typed_field_takes_its_list(config):
    changed = config.but({"m.names": ["x", "y"]})
    assert changed.stack.alphabet["m"].names == ("x", "y")
    assert changed.stack.vary == {}


def test_a_new_letter_may_vary_at_once(config):
    changed = config.but({"alphabet.g": "glu", "layout": "(sg)x2", "g.inner": [8, 16]})
    assert [getattr(part, "inner", None) for part in changed.stack.parts] == [None, 8, None, 16]


def test_a_layout_rule_rewrites_the_base(config):
    assert config.but(layout="(sf)x16").but(layout="par(5)").stack.layout == "(sfff)x6 (f)x8"


def test_diff_names_every_leaf_that_differs(config):
    assert config.diff(config) == {}
    assert config.but({"s.heads": 2}).diff(config) == {"stack.alphabet.s.heads": (2, 4)}


def test_hash_depends_on_content_only(config):
    assert config.hash == Model.Config.parse(config.dump()).hash
    assert config.hash != config.but(dim=64).hash


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"s.heads": 7}, "alphabet.s: heads=7 does not divide dim=32"),
        ({"s.heads": [2, 2, 2]}, "vary.s.heads: 3 values for 2 occurrences of 's'"),
        ({"layout": "(sq)x2"}, "uses the letter 'q'"),
        ({"layout": "(sf"}, "without its ')'"),
        ({"dmi": 64}, "unknown key 'dmi'; did you mean dim"),
        ({"dim": "wide"}, "dim: input should be a valid integer"),
        ({"position": "rotari"}, "stack.position: unknown position kind 'rotari'; did you mean rotary?"),
        ({"position.base": 3}, "stack.position.base: there is no such field"),
        ({"s.kv_heads": 3}, "kv_heads=3 does not divide heads=4"),
        ({"s.memory": "segment", "s.pattern": "full"}, "looks both ways"),
        ({"m.width": "x"}, "stack.alphabet.m.width: input should be a valid integer"),
        ({"dim.size": 3}, "which has no fields"),
    ],
)
def test_every_error_has_its_path_in_one_line(config, changes, said):
    with pytest.raises(ConfigError) as error:
        config.but(changes)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_another_kind_keeps_the_fields_that_it_has_too(config):
    turned = config.but({"s.pattern": "block_local", "s.pattern.size": 32, "s.pattern.before": 8})
    turned = turned.but({"s.pattern.kind": "window", "s.pattern.look": "back"})
    assert turned.stack.alphabet["s"].pattern == Window.Config(size=32)
    assert config.but({"s.pattern.kind": "strided"}).stack.alphabet["s"].pattern == Strided.Config()
    with pytest.raises(ConfigError, match=r"s\.pattern\.before: there is no such field"):
        config.but({"s.pattern.kind": "window", "s.pattern.before": 8})


def test_unreadable_text_is_refused():
    with pytest.raises(ConfigError, match="not valid JSON"):
        Model.Config.from_json("{")
    with pytest.raises(ConfigError, match="not valid TOML"):
        Model.Config.from_toml("a =")
    with pytest.raises(ConfigError, match="expected a model"):
        Model.Config.from_json("[]")


def test_families_have_phone_books_of_their_own():
    assert "none" in Position.Config.registry
    assert Position.Config.registry is not Stack.Config.registry
    assert issubclass(Position.Config.registry["alibi"], Config)


class Later(Part):
    """A part whose Config grew a field and renamed another."""

    class Config(Part.Config, tag="later"):
        renamed = {"wide": "width"}
        added = frozenset({"inner"})

        width: int = 7
        inner: Part.Config = Dense.Config()


def test_a_field_that_came_later_leaves_old_dumps_and_hashes_alone():
    assert Later.Config().dump() == {"kind": "later", "width": 7}
    assert Later.Config(inner=Mine.Config()).dump()["inner"]["kind"] == "mine"
    assert Later.Config().but({"inner.activation": "gelu"}).inner == Dense.Config(activation="gelu")


def test_a_renamed_field_goes_on_loading():
    assert Later.Config.parse({"kind": "later", "wide": 9}) == Later.Config(width=9)
    assert Later.Config().but({"wide": 9}) == Later.Config(width=9)


@pytest.mark.parametrize("kind", [["dense"], {"a": 1}, 3, None])
def test_a_kind_that_is_no_name_is_refused_in_one_line(kind):
    with pytest.raises(ConfigError, match="unknown part kind"):
        Part.Config.parse({"kind": kind})


def test_what_is_nested_too_deeply_is_refused_in_one_line():
    with pytest.raises(ConfigError, match="nested too deeply"):
        Model.Config.from_json("[" * 100_000)
