"""Images as data: where they come from, how they are divided, in which order they are read."""

import hashlib
import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from sublayer.data import Data, Images, prepare
from sublayer.data.images import ImageRows, ImageSplit
from sublayer.data.images.batches import sweep
from sublayer.data.tokenizer import Byte

SPLITS = ("train", "valid", "test")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "cache"))


def noise(count, height=4, width=6, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, channels)).astype(np.uint8)


def saved(images, folder, suffix=".png"):
    folder.mkdir()
    for n, image in enumerate(images):
        Pillow.fromarray(image.squeeze()).save(folder / f"{n:03}{suffix}")


def read(typed, **changes):
    return prepare(Data.Config.guess(typed).but(changes))


def shown(data, split="train"):
    part = getattr(data, split)
    return [data.tokenizer.show(part.levels_NT[n]) for n in part.number_E]


def whole(typed, **changes):
    """All images of a source, in its order."""
    data = read(typed, valid=0.0, test=0.0, **changes)
    return np.stack([data.tokenizer.show(row) for row in data.train.levels_NT])


# Where images come from


@pytest.mark.parametrize("suffix", [".png", ".ppm"])
@pytest.mark.parametrize("channels", [1, 3])
def test_files_and_arrays_give_the_same_tokens(tmp_path, suffix, channels):
    images = noise(5, channels=channels)
    saved(images, tmp_path / "photos", suffix if channels == 3 else suffix.replace("ppm", "pgm"))
    np.save("photos.npy", images if channels == 3 else images[..., 0])
    for typed in ("image:photos", "image:photos/", "image:photos/*", "image:photos.npy"):
        assert np.array_equal(whole(typed), images)


def png(name, values, mode, **how):
    Pillow.fromarray(np.asarray(values), mode=None).convert(mode).save(name, **how)


def test_every_kind_of_png(tmp_path):
    """16 bits, a palette, black and white, and what is transparent."""
    grey = np.array([[0, 100], [200, 255]], np.uint8)
    Pillow.fromarray(grey).save("grey.png")
    Pillow.fromarray(grey.astype(np.uint16) * 257).save("deep.png")
    Pillow.fromarray(grey).convert("P").save("palette.png")
    Pillow.fromarray(np.array([[0, 255], [255, 255]], np.uint8)).convert("1").save("bits.png")
    clear = np.zeros((2, 2, 4), np.uint8)
    clear[0] = 9, 8, 7, 255
    Pillow.fromarray(clear).save("clear.png")
    assert np.array_equal(whole("image:grey.png")[0, ..., 0], grey)
    assert np.array_equal(whole("image:deep.png")[0, ..., 0], grey)
    assert np.array_equal(whole("image:palette.png", channels="grey")[0, ..., 0], grey)
    assert whole("image:bits.png").reshape(-1).tolist() == [0, 255, 255, 255]
    assert whole("image:clear.png").tolist() == [[[[9, 8, 7]] * 2, [[255] * 3] * 2]]


def test_grey_and_coloured_files_together_are_coloured(tmp_path):
    saved(noise(2), tmp_path / "photos")
    Pillow.fromarray(noise(1, channels=1).squeeze()).save("photos/grey.png")
    assert read("image:photos", valid=0.0, test=0.0).tokenizer.config.channels == "rgb"


def test_sizes_that_differ_are_refused_unless_a_size_is_given(tmp_path):
    saved(noise(3, 8, 8), tmp_path / "photos")
    Pillow.fromarray(noise(1, 5, 7)[0]).save("photos/small.png")
    with pytest.raises(
        ValueError, match=r"^\S*small\.png: has 5×7 pixels \(height × width\), and \S*000\.png 8×8; .*data\.size=8$"
    ):
        read("image:photos")
    assert whole("image:photos", size=4).shape == (4, 4, 4, 3)
    assert whole("image:photos", size=[4, 6]).shape == (4, 4, 6, 3)


def bad_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("no image")


def bad_png(tmp_path):
    (tmp_path / "text.png").write_text("no image")


def cut_png(tmp_path):
    Pillow.fromarray(noise(1, 40, 40)[0]).save("whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:-500])


def array(name, value):
    return lambda tmp_path: np.save(tmp_path / name, value)


@pytest.mark.parametrize(
    ("make", "typed", "message"),
    [
        (bad_folder, "image:empty", r"empty: holds no images; give a folder"),
        (bad_png, "image:text.png", r"text\.png: not an image that can be read"),
        (cut_png, "image:cut.png", r"cut\.png: not an image that can be read \(.*truncated.*\)"),
        (bad_png, "image:missing.png", r"missing\.png: there is no such file"),
        (bad_png, "image:missing/*.png", r"matches no file"),
        (bad_png, "image:missing.npy", r"missing\.npy: there is no such file"),
        (array("a.npy", np.zeros((2, 4, 4))), "image:a.npy", r"float64, expected uint8.*astype\('uint8'\)"),
        (array("a.npy", np.zeros((2, 4), np.uint8)), "image:a.npy", r"its shape is \(2, 4\), expected N × height"),
        (array("a.npy", np.zeros((2, 4, 4, 2), np.uint8)), "image:a.npy", r"its shape is \(2, 4, 4, 2\)"),
        (array("a.npy", np.zeros((0, 4, 4), np.uint8)), "image:a.npy", r"at least one image"),
        (array("a.npy", np.array([None])), "image:a.npy", r"a\.npy: not a NumPy array \(.*Python objects.*\)"),
        (array("a.npy", np.zeros((2, 4, 4), np.uint8)), "image:a.npy", r"2 images leave none for train"),
    ],
)
def test_what_is_no_image_is_refused_in_one_line(tmp_path, make, typed, message):
    make(tmp_path)
    with pytest.raises(ValueError, match=message) as refused:
        read(typed)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": 0}, r"levels: input should be greater than or equal to 2, got 0"),
        ({"levels": 257}, r"levels: input should be less than or equal to 256"),
        ({"size": 0}, r"size"),
        ({"channels": "cmyk"}, r"channels: input should be 'grey' or 'rgb'"),
        ({"valid": 0.5, "test": 0.5}, r"leave nothing to train on"),
    ],
)
def test_settings_that_cannot_be(changes, message):
    with pytest.raises(ValueError, match=message) as refused:
        read("image:shapes", **changes)
    assert "\n" not in str(refused.value)


def test_a_file_of_the_name_is_not_the_kind(tmp_path):
    assert Data.Config.guess("image") == Data.Config.guess("image:") == Data.Config.guess("image:shapes")
    (tmp_path / "image").write_text("a text")
    assert Data.Config.guess("image").tag == "data"


def test_a_pattern_is_absolute_so_that_a_run_resumes_anywhere(tmp_path):
    assert Data.Config.guess("image:a/*.png").source.path == str(tmp_path / "a/*.png")


# Shapes


def test_shapes_are_the_same_everywhere():
    """The drawing has whole numbers only; another figure here means that runs on it cannot be resumed."""
    images = whole("image:shapes", **{"source.count": 150, "channels": "rgb", "size": [9, 13]})
    assert hashlib.sha256(images.tobytes()).hexdigest()[:16] == "5b6fd2d22394882c"


def test_more_shapes_begin_with_the_same_ones_and_another_seed_draws_others():
    few, many, other = (
        whole("image:shapes", **{"source.count": n, "source.seed": s}) for n, s in ((140, 0), (260, 0), (140, 1))
    )
    assert few.shape == (140, 16, 16, 1)
    assert np.array_equal(few, many[:140])
    assert (few != other).any((1, 2, 3)).mean() > 0.9


# Splits


@given(st.integers(3, 60), st.integers(0, 5))
def test_every_image_is_in_one_split(count, seed):
    from sublayer.data.images.images import _divided

    config = Images.Config(seed=seed, valid=0.2, test=0.1)
    found = _divided(config, count)
    assert sorted(np.concatenate(list(found.values())).tolist()) == list(range(count))
    assert all(len(part) for part in found.values())


def test_the_same_seed_divides_alike_and_the_config_reads_the_same_images_again(tmp_path):
    np.save("a.npy", noise(20))
    one, again, other = read("image:a.npy"), read("image:a.npy"), read("image:a.npy", seed=1)
    assert one.hash == again.hash == prepare(one.config).hash != other.hash
    assert one.test.number_E.tolist() == again.test.number_E.tolist() != other.test.number_E.tolist()
    assert Data.Config.from_json(one.config.to_json()) == one.config
    (tmp_path / "b").mkdir()
    np.save("b/a.npy", noise(20))
    assert read("image:b/a.npy").hash == one.hash


def test_a_trained_model_s_tokenizer_decides_on_size_channels_and_levels():
    small = read("image:shapes", size=8, levels=4, **{"source.count": 30})
    np.save("a.npy", noise(20, 16, 16))
    found = prepare(Data.Config.guess("image:a.npy"), tokenizer=small.tokenizer)
    assert found.tokenizer == small.tokenizer
    assert found.train.levels_NT.shape == (20, 64)
    with pytest.raises(ValueError, match="is a set of images, and the model was trained on other tokens"):
        prepare(Data.Config.guess("image:a.npy"), tokenizer=Byte())


# Orders


def split(count, tokens=5):
    levels_NT = np.arange(2 * count * tokens, dtype=np.uint8).reshape(2 * count, tokens)
    return ImageSplit("train", levels_NT, np.arange(count) * 2, start=255)


def test_a_row_is_an_image_and_each_pixel_is_predicted_from_those_before_it():
    found = next(ImageRows(split(7), 3))
    assert found.inputs_BL.shape == found.targets_BL.shape == (3, 5)
    assert (found.inputs_BL[:, 0] == 255).all()
    assert torch.equal(found.inputs_BL[:, 1:], found.targets_BL[:, :-1])
    assert all(row[0] % 10 == 0 and row.tolist() == list(range(row[0], row[0] + 5)) for row in found.targets_BL)


@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 3))
def test_each_epoch_visits_each_image_once(count, batch, seed):
    batches = ImageRows(split(count), batch, seed=seed)
    first = torch.cat([next(batches).targets_BL[:, 0] for _ in range(3 * count)])
    for epoch in first[: 3 * count * batch // count * count].view(-1, count):
        assert sorted(epoch.tolist()) == [10 * n for n in range(count)]


@given(st.integers(2, 9), st.integers(1, 3), st.integers(1, 3), st.integers(0, 7))
def test_a_cursor_resumes_bit_for_bit_on_any_number_of_processes(count, batch, world, done):
    first = ImageRows(split(count), batch * world, seed=3)
    for _ in range(done):
        next(first)
    cursor = json.loads(json.dumps(first.cursor))
    ranks = [ImageRows(split(count), batch * world, seed=3, rank=n, world=world, cursor=cursor) for n in range(world)]
    for _ in range(5):
        assert torch.equal(next(first).inputs_BL, torch.cat([next(one).inputs_BL for one in ranks]))


def test_a_cursor_of_other_images_is_refused():
    with pytest.raises(ValueError, match=re.escape("cursor: belongs to batches with tokens=10, here it is 15")):
        ImageRows(split(3), 1, cursor={"kind": "images", "tokens": 10, "seed": 0, "images": 0})


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.integers(1, 60))
def test_a_sweep_reads_every_image_once_whoever_reads_it(count, batch, world, limit):
    part, seen = split(count), []
    for rank in range(world):
        for found in sweep(part.beginning(limit), batch * world, rank=rank, world=world):
            weights_BL = torch.ones(found.targets_BL.shape) if found.weights_BL is None else found.weights_BL
            assert weights_BL.shape == found.targets_BL.shape
            seen += found.targets_BL[weights_BL[:, 0] > 0, 0].tolist()
    assert sorted(seen) == [10 * n for n in range(min(count, max(1, limit // 5)))]
