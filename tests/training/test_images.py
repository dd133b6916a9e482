"""Patterns and positions that have the size of an image are fitted to the images, or refused."""

import pytest

import sublayer
from sublayer.data import Data, prepare
from sublayer.nn.attention.pattern import BlockLocal2D, Causal, Pattern, Window
from sublayer.training.config import TrainConfig
from sublayer.training.request import check_pair
from sublayer.training.vocabulary import fit_vocab

SMALL = {"dim": 16, "layout": "(sf)x2", "s.heads": 2, "f.inner": 16}
BLOCKS = {"kind": "block_local_2d", "columns": 4}


@pytest.fixture
def images(tmp_path):
    changes = {"size": [4, 8], "channels": "rgb", "levels": 4, "source.count": 30}
    return prepare(Data.Config.guess("image:shapes").but(changes), tmp_path)


@pytest.fixture
def text(tmp_path):
    (tmp_path / "book.txt").write_text("a text of words\n" * 99)
    return prepare(Data.Config.guess(str(tmp_path / "book.txt")), tmp_path)


def widths(model):
    return [part.image_row for part in model.stack.parts if part.attends]


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        ({}, {"s.pattern": "block_local_2d"}),
        ({}, {"s.pattern": "block_local_2d", "s.pattern.rows": 2}),
        ({"s.pattern": BLOCKS}, {}),
        ({}, {"s.pattern": {"kind": "by_layer", "members": [BLOCKS, BLOCKS]}}),
        ({}, {"s.pattern": {"kind": "union", "members": [{"kind": "window", "size": 4}, BLOCKS]}}),
        ({}, {"s.pattern": {"kind": "causal", "of": {"kind": "union", "members": [BLOCKS]}}}),
        ({}, {"s.pattern": {"kind": "block_local_2d", "width": 24}}),
    ],
)
def test_where_no_width_is_named_it_is_that_of_the_images(images, base, changes):
    made = fit_vocab(sublayer.config("gpt2", {**SMALL, **base}), changes, images)
    assert widths(made) == [24, 24]
    check_pair(made, TrainConfig(), images)
    assert made == fit_vocab(made, {"vocab": made.vocab}, images)


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"s.pattern": "block_local_2d", "s.pattern.width": 32}, r"use s\.pattern\.width=24, or leave"),
        ({"s.pattern": {**BLOCKS, "width": 32}}, r"use s\.pattern\.width=24, or leave"),
        ({"s.pattern": BlockLocal2D.Config()}, r"use s\.pattern\.width=24, or leave"),
        ({"s.pattern": {"kind": "causal", "of": {**BLOCKS, "width": 32}}}, r"use a width of 24, or leave"),
    ],
)
def test_a_width_that_is_named_and_is_not_theirs_is_refused(images, changes, remedy):
    made = fit_vocab(sublayer.config("gpt2", SMALL), changes, images)
    with pytest.raises(
        ValueError,
        match=r"s\.pattern=\w+: made for images with rows of 32 tokens, .* have 4 rows of 24 tokens.*" + remedy,
    ):
        check_pair(made, TrainConfig(), images)


@pytest.mark.parametrize(
    ("base", "changes", "shape"),
    [
        ({"position": "grid"}, {}, (4, 8, 3)),
        ({}, {"position": "grid"}, (4, 8, 3)),
        ({"position": {"kind": "grid", "shape": [9, 9]}}, {}, (4, 24)),
        ({}, {"position": {"kind": "grid", "shape": [2, 2, 2, 12]}}, (2, 2, 2, 12)),
    ],
)
def test_a_grid_of_positions_takes_the_shape_of_the_images(images, base, changes, shape):
    made = fit_vocab(sublayer.config("gpt2", {**SMALL, **base}), changes, images)
    assert made.stack.position.shape == shape
    check_pair(made, TrainConfig(), images)


def test_a_grid_of_another_shape_is_refused(images):
    changes = {"position": "grid", "position.shape": [8, 8, 3]}
    made = fit_vocab(sublayer.config("gpt2", SMALL), changes, images)
    with pytest.raises(ValueError, match=r"position\.shape=\[8,8,3\]: the images .* use position\.shape=\[4,8,3\]"):
        check_pair(made, TrainConfig(), images)


@pytest.mark.parametrize("paper", ["image-transformer", "image-transformer-2d"])
def test_the_image_transformer_takes_its_sizes_from_the_images(images, paper):
    small = {"dim": 16, "layout": "(sf)x1", "s.heads": 2, "f.inner": 16}
    made = fit_vocab(
        sublayer.config(paper), {**small, "s.pattern.columns": 8} if paper.endswith("2d") else small, images
    )
    assert (made.vocab, made.stack.position.shape) == (5, (4, 8, 3))
    assert made.stack.parts[0].image_row == (24 if paper.endswith("2d") else None)
    check_pair(made, TrainConfig(), images)


def test_rows_that_do_not_divide_into_blocks_are_refused(images):
    with pytest.raises(ValueError, match=r"width=24: .* blocks of columns=16, which does not divide it"):
        fit_vocab(sublayer.config("gpt2", SMALL), {"s.pattern": "block_local_2d", "s.pattern.columns": 16}, images)


def test_a_text_has_no_rows(text, images):
    changes = {"s.pattern": "block_local_2d"}
    made = fit_vocab(sublayer.config("gpt2", SMALL), changes, text)
    assert widths(made) == [32, 32]
    check_pair(made, TrainConfig(), text)
    assert fit_vocab(sublayer.config("gpt2", SMALL), {}, images).stack.alphabet["s"].pattern == Causal.Config()


def test_a_pattern_that_reads_one_line_stays_as_it_is():
    for pattern in (Window.Config(), Pattern.Config.parse("strided"), Pattern.Config.parse("block_local")):
        assert pattern.image_row is None
        assert pattern.for_images(24) == pattern
