"""Layouts as blocks."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublayer
from sublayer.reports import blocks


@given(st.text("sfcq", min_size=1, max_size=40))
def test_a_block_a_sublayer(word):
    drawn = ElementTree.fromstring(blocks.strip(word))
    assert [rect.find("title").text[0] for rect in drawn] == list(word)  # pyright: ignore[reportOptionalMemberAccess]
    corners = [(float(rect.get("y", "")), float(rect.get("x", ""))) for rect in drawn]
    assert corners == sorted(set(corners))
    assert float(drawn.get("width", "")) <= blocks.LONG * (blocks.WIDE + blocks.GAP)  # more go on in a second line


def test_a_drawing_puts_long_names_above_their_blocks():
    name = "transformer-lm position=rotary f.inner=128,256"
    svg = ElementTree.fromstring(blocks.picture([(name, "sf", None)]))
    below = [float(one.get("y", "")) for one in svg if one.tag.endswith("rect") and len(one)]
    (text,) = (float(one.get("y", "")) for one in svg if one.text == name)
    assert min(below) >= text
    assert float(svg.get("width", "")) > 6 * len(name)


def test_as_wide_as_the_inner_size():
    config = sublayer.config("gpt2", {"f.inner": [64, 128, 256], "s.heads": 2}, dim=64, layout="(sf)x3").model_dump()
    ((_, row),) = blocks.rows("(sf)x3", config)
    assert [block.size for block in row if block.letter == "f"] == [64, 128, 256]
    widths = [block.width for block in row]
    assert widths[1] < widths[3] < widths[5] == widths[0] == blocks.WIDE


def test_two_stacks_are_two_rows():
    config = sublayer.config("transformer").model_dump()
    assert [name for name, _ in blocks.rows("", config)] == ["encoder", "decoder"]
    assert blocks.strip("", config).count("<svg") == 2


@pytest.mark.parametrize("layout", ["", "((", "(s)x4000", "<b>", "s→f"])
def test_what_cannot_be_drawn_is_left_to_its_text(layout):
    assert blocks.strip(layout) == ""
    assert ElementTree.fromstring(blocks.picture([("a <model>", layout, None)])) is not None
