"""Pixels as tokens, and back; other sizes; PNG files that others can read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from sublayer.data.images import png
from sublayer.data.images.resize import resized
from sublayer.data.images.sheet import GAP, MARKED, SHOWN, sheet
from sublayer.data.tokenizer import Pixels, Tokenizer
from sublayer.data.tokenizer.pixels import recoloured

sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))


def pixels(height=2, width=2, channels="grey", levels=256):
    return Pixels.Config(height=height, width=width, channels=channels, levels=levels).fit([])


def noise(height, width, channels=1, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels)).astype(np.uint8)


def test_every_level_is_shown_as_a_value_of_that_level():
    """So what a model writes reads again as the same tokens."""
    for levels in range(2, 257):
        own = pixels(1, levels, levels=levels)
        shown = own.show(np.arange(levels))
        assert own.read(shown).tolist() == list(range(levels))
        assert (shown.min(), shown.max()) == (0, 255)
        assert (np.diff(shown.reshape(-1).astype(int)) > 0).all()


def test_tokens_go_row_by_row_with_the_channels_of_a_pixel_together():
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    own = pixels(channels="rgb")
    assert own.read(image).tolist() == list(range(12))
    assert (own.row, own.tokens, own.vocab, own.start) == (6, 12, 257, 256)
    assert np.array_equal(own.show(range(12)), image)
    assert np.array_equal(own.show(range(6)), image[:1])


def test_few_levels_cut_the_range_into_equal_parts():
    ramp = np.arange(256, dtype=np.uint8).reshape(1, 256, 1)
    assert np.bincount(pixels(1, 256, levels=8).read(ramp)).tolist() == [32] * 8


@pytest.mark.parametrize("ids", [[0, 256], [0, 1, 2], [257, 0]])
def test_ids_that_are_no_rows_are_refused(ids):
    with pytest.raises(ValueError, match=r"rows of 2 levels|outside the vocabulary"):
        pixels().show(ids)


def test_as_text_levels_are_numbers(tmp_path):
    own = pixels(levels=4)
    assert own.encode("0 3\n2").tolist() == [0, 3, 2]
    assert own.decode([0, 3, 2]) == "0 3 2"
    with pytest.raises(ValueError, match="'seven' is no level"):
        own.encode("seven")
    own.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").pixels == own


def test_grey_is_what_the_eye_sees():
    colours = np.array([[[255, 255, 255], [0, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8)
    assert recoloured(colours, "grey").reshape(-1).tolist() == [255, 0, 150, 29]
    assert recoloured(colours[..., :1], "rgb").shape == (1, 4, 3)


@given(sizes, sizes, st.integers(0, 255))
def test_one_colour_stays_that_colour_at_any_size(there, wanted, value):
    image = np.full((*there, 3), value, np.uint8)
    assert np.array_equal(resized(image, *wanted), np.full((*wanted, 3), value, np.uint8))


@given(sizes, st.integers(1, 4), st.integers(0, 99))
def test_a_smaller_image_has_the_means_of_areas_and_a_larger_one_repeats(size, times, seed):
    small = noise(*size, seed=seed)
    large = small.repeat(times, axis=0).repeat(times, axis=1)
    assert np.array_equal(resized(large, *size), small)
    assert np.array_equal(resized(small, *large.shape[:2]), large)


def test_other_proportions_take_the_middle():
    image = np.zeros((2, 6, 1), np.uint8)
    image[:, 2:4] = 200
    assert np.array_equal(resized(image, 4, 4), np.full((4, 4, 1), 200, np.uint8))


@given(sizes, st.sampled_from([1, 3]), st.integers(0, 99))
def test_a_png_that_we_write_is_the_image_that_others_read(size, channels, seed):
    import io
    import tempfile
    from pathlib import Path

    image = noise(*size, channels, seed)
    with tempfile.TemporaryDirectory() as folder:
        png.write(Path(folder) / "a.png", image)
        found = Pillow.open(io.BytesIO((Path(folder) / "a.png").read_bytes()))
    assert found.mode == ("L" if channels == 1 else "RGB")
    assert np.array_equal(np.asarray(found).reshape(image.shape), image)


def test_a_sheet_has_each_image_enlarged_with_given_rows_marked():
    first, second = noise(4, 6, seed=1), noise(4, 6, 3, seed=2)
    found = sheet([[first, second], [second]], marked=3)
    times = SHOWN // 4
    assert found.shape == (2 * (4 * times + GAP) + GAP, 2 * (6 * times + GAP) + GAP, 3)
    left = 6 * times + 2 * GAP
    assert np.array_equal(found[GAP : GAP + 4 * times : times, left : left + 6 * times : times], second)
    beside = (found[GAP : GAP + 4 * times, :GAP] == MARKED).all(2).any(1)
    assert beside.tolist() == [True] * 3 * times + [False] * times
