"""Models in one line."""

import sublayer
from sublayer.reports.spec import MOST, cut, specs
from tests.reports import made


def test_what_differs_is_named_as_it_is_typed():
    small = sublayer.config("gpt2", {"s.heads": 2, "f.inner": [64, 128]}, dim=32, layout="(sf)x2").model_dump()
    other = sublayer.config("gpt2", {"s.heads": 2}, dim=32, layout="(sf)x2", position="rotary").model_dump()
    first, second = specs([small, other])
    assert first.startswith("dim=32 layout=(sf)x2 s.heads=2 f.inner=64,128 position=learned")
    assert "position=rotary" in second
    assert "vocab" not in first + second  # which both share


def test_models_without_a_config_have_no_line():
    assert specs([None, made.config(1)])[0] == ""
    assert specs([]) == []


def test_a_long_line_is_cut_between_keys():
    line = " ".join(f"key{n}=value" for n in range(60))
    assert len(cut(line)) <= MOST + 2
    assert cut(line).endswith("=value …")
    assert cut("short") == "short"
