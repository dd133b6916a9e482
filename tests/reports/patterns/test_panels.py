"""Layers and heads that see the same are one panel, and none is left out."""

import sys
from itertools import product
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sublayer
from sublayer.nn.attention import pattern as members
from sublayer.reports.patterns import draw, files, panels
from sublayer.reports.patterns.panels import balanced, chosen, counted, in_words
from sublayer.reports.patterns.svg import LEVELS, boxes, svg

SMALL = {"dim": 48, "layout": "(sf)x4", "s.heads": 4, "f.inner": 64, "vocab": 100}


def small(pattern, **more):
    return sublayer.config("gpt2", {**SMALL, "s.pattern": pattern, **more})


@pytest.mark.parametrize(
    "pattern",
    [
        members.Window.Config(),
        members.Strided.Config(use="by_layer"),
        members.Strided.Config(use="per_head"),
        members.Longformer.Config(dilation=2, globals=1),
        members.BigBird.Config(look="back"),
    ],
    ids=lambda pattern: pattern.tag,
)
def test_every_head_of_every_layer_is_in_one_panel_with_its_pattern(pattern):
    config = small(pattern)
    attentions = [part for part in config.writer.parts if part.patterns]
    assert len(attentions) == 4
    found = panels(config)
    for layer, head in product(range(4), range(4)):
        mine = [
            one
            for one in found
            if (not one.layers or layer + 1 in one.layers) and (not one.heads or head + 1 in one.heads)
        ]
        assert [one.pattern for one in mine] == [pattern.at(layer, 4).by_head(4)[head]]


def captions(config):
    return [one.name for one in panels(config)]


def test_captions_name_what_differs():
    assert captions(small(members.Window.Config())) == [""]
    assert captions(small(members.Strided.Config(use="by_layer"))) == ["layers 1, 3", "layers 2, 4"]
    assert captions(small(members.Strided.Config(use="per_head"))) == ["heads 1–2", "heads 3–4"]
    assert captions(small(members.Longformer.Config(dilation=2)))[-2:] == ["layer 4, heads 1–3", "layer 4, head 4"]
    assert captions(sublayer.config("transformer")) == ["encoder", "decoder"]
    assert counted("layer", [1, 3, 5, 7]) == "layers 1, 3 … 7"
    assert counted("head", [1, 2, 3, 5]) == "heads 1–3, 5"


def test_layers_are_those_that_attend():
    config = small(members.Strided.Config(use="by_layer"), layout="ffsfsf")
    assert captions(config) == ["layer 1", "layer 2"]


def test_what_a_memory_and_a_span_hide_is_hidden():
    (panel,) = panels(sublayer.config("transformer-xl", {"s.memory.length": 2, "s.memory.span": "exact"}))
    seen = panel.seen(torch.arange(5)[:, None], torch.arange(5))
    assert seen.tolist() == [[0 <= i - j <= 2 for j in range(5)] for i in range(5)]
    (panel,) = panels(small(members.Causal.Config(), **{"s.span": "adaptive", "s.span.limit": 7}))
    assert panel.sees == 7


def test_of_too_many_panels_the_first_and_the_last_are_drawn():
    found = panels(small(members.BigBird.Config(look="back"), layout="(sf)x9"))
    assert len(found) == 36
    kept = chosen(found, 12)
    assert len(kept) <= 12
    assert kept[0] == found[0]
    assert kept[-1] == found[-1]
    assert len(set(kept)) == len(kept)
    drawing = draw("many", small(members.BigBird.Config(look="back"), layout="(sf)x9"), 64)
    assert drawing.left_out == 36 - len(drawing.panels)
    assert f"not drawn: {drawing.left_out} more squares" in drawing.rest[0]
    assert chosen(found, 40) == found


@given(st.integers(1, 60), st.integers(1, 8))
def test_rows_are_about_equally_long(count, most):
    across = balanced(count, most)
    assert across <= most
    rows = -(-count // across)
    assert rows == -(-count // most)
    assert count - (rows - 1) * across > 0


def test_a_pattern_in_words():
    assert in_words(members.Window.Config()) == "window size=128"
    assert in_words(members.Causal.Config(of=members.Global.Config())) == "causal(global first=1 count=1)"
    words = in_words(members.Blockwise.Config(size=2, orders=((1, 0),)))
    assert words == "blockwise size=2 orders=[[1, 0]]"
    assert in_words(members.Strided.Config(use="per_head").spelled()).startswith(
        "per_head(window size=128, dilated by="
    )


def test_a_model_without_a_pattern_is_refused():
    with pytest.raises(ValueError, match=r"mlp: none of its parts has a pattern of who sees whom \(dense\)"):
        draw("mlp", sublayer.config("gpt2", {**SMALL, "layout": "(f)x2"}))


@given(st.integers(1, 8), st.integers(1, 8), st.data())
def test_rectangles_cover_each_cell_once_with_its_shade(rows, columns, data):
    row = st.lists(st.sampled_from([0, 0, 1e-4, 0.5, 1, 1]), min_size=columns, max_size=columns)
    share = torch.tensor(data.draw(st.lists(row, min_size=rows, max_size=rows)))
    painted = torch.zeros_like(share)
    for level, found in boxes(share).items():
        for left, top, right, bottom in found:
            assert (painted[top:bottom, left:right] == 0).all()
            painted[top:bottom, left:right] = level
    assert torch.equal(painted, (share * LEVELS).ceil())


def test_equal_neighbours_are_one_rectangle():
    assert boxes(torch.ones(5, 7)) == {LEVELS: [(0, 0, 7, 5)]}
    assert boxes(torch.zeros(5, 7)) == {}


def test_the_picture_has_a_square_for_each_panel():
    drawing = draw("a < b", small(members.Longformer.Config(size=32, smallest=4, dilation=2)), 64)
    root = ElementTree.fromstring(svg(drawing))
    drawn = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert drawn[0] == "a < b"
    for panel, found in drawing.panels:
        assert set(panel.caption) <= set(drawn)
        assert f"{100 * found.seen:.3g} % of all pairs, {found.keys:.4g} keys a token" in drawn
    groups = [one for one in root.iter("{http://www.w3.org/2000/svg}g") if "transform" in one.attrib]
    assert len(groups) == len(drawing.panels) == 6


def test_a_picture_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    drawing = draw("gpt2", small(members.Window.Config()), 16)
    assert files.write(drawing, tmp_path / "new" / "a.svg").read_text(encoding="utf-8") == svg(drawing)
    assert files.write(drawing, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ValueError, match=r"a PNG needs vl-convert; pip install 'sublayer\[report\]', or write SVG"):
        files.check(tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()
