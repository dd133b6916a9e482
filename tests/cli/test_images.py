"""Images on the command line: trained, resumed, scored, completed, compared; and refused in one line."""

import json
import math
import re

import numpy as np
import pytest
from PIL import Image as Pillow

SMALL = ["dim=16", "layout=(sf)x1", "s.heads=2", "f.inner=16", "train.batch=2"]
SHAPES = ["--data", "image:shapes", "data.source.count=40", "data.size=8", "data.levels=4"]
TWO_D = ["s.pattern=block_local_2d", "s.pattern.columns=4", "s.pattern.rows=2"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "book.txt").write_text("a text of words\n" * 99)


@pytest.fixture
def shapes(run):
    run("train", "gpt2", *SHAPES, "--out", "runs/shapes", *SMALL, *TWO_D, "train.steps=2", "--quiet")
    return "runs/shapes"


def test_trained_resumed_and_scored(run, refuse, shapes):
    last = json.loads(run("resume", shapes, "train.steps=3").splitlines()[-1])
    assert last["valid_bits_per_dim"] == pytest.approx(last["valid_loss"] / math.log(2))
    assert last["tokens"] == 3 * 2 * 64
    found = json.loads(run("eval", shapes, "--json"))
    assert (found["text"], found["split"], found["length"]) == ("image:shapes", "test", None)
    assert found["bits_per_dim"] == pytest.approx(found["loss"] / math.log(2))
    assert found.keys().isdisjoint({"perplexity", "bits_per_byte"})
    page = run("eval", shapes, "--split", "valid")
    assert "images, each read by itself" in page
    assert re.search(r"bits per dim +[0-9]", page)
    assert json.loads(run("runs", "runs", "--json"))[0]["valid_bits_per_dim"] > 0
    assert "bits/dim" in run("runs", "runs")
    for words in (["--stride", "2"], ["--memory", "3"], ["--lengths", "2,4"], ["--positions"]):
        assert f"{words[0][2:]}: image:shapes is not scored token by token" in refuse("eval", shapes, *words)
    assert "is no level of a pixel" in refuse("eval", shapes, "--data", "book.txt")
    assert "was trained on images, and continues no text" in refuse("generate", shapes, "--prompt", "0 1")


def test_other_images_are_scored_as_the_model_sees_them(run, shapes):
    np.save("a.npy", np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3)).astype(np.uint8))
    found = json.loads(run("eval", shapes, "--data", "image:a.npy", "--json"))
    assert (found["split"], found["bits_per_dim"] > 0) == ("all", True)


def test_completed(run, refuse, shapes):
    assert run("generate", shapes, "--image", "out.png", "--images", "2") == (
        "out.png: 2 images with 4 of 8 rows given, below the images as they are\n"
    )
    found = np.asarray(Pillow.open("out.png"))[6:, 6:]
    line, above = found.shape[0] // 2, found[: found.shape[0] // 2]
    half = line // 2 - 3  # of the pixels of an image, which six pixels of ground follow
    assert np.array_equal(found[line : line + half], above[:half])
    assert not np.array_equal(found[line + half :], above[half:])
    run("generate", shapes, "--image", "all.png", "--images", "2", "--rows", "8")
    given = np.asarray(Pillow.open("all.png"))[6:, 6:]
    assert np.array_equal(given[line:], given[:line])
    Pillow.fromarray(np.full((8, 8), 200, np.uint8)).save("in.png")
    Pillow.fromarray(np.full((3, 8), 200, np.uint8)).save("top.png")
    Pillow.fromarray(np.full((9, 8), 200, np.uint8)).save("large.png")
    assert "1 image with 4 of 8 rows" in run("generate", shapes, "--image", "out.png", "--prompt-image", "in.png")
    assert "1 image with 3 of 8 rows given\n" in run(
        "generate", shapes, "--image", "out.png", "--prompt-image", "top.png"
    )
    for words, answer in (
        (["--prompt-image", "large.png"], r"large\.png: has 9×8 pixels .* and the model's images 8×8"),
        (["--prompt-image", "missing.png"], r"missing\.png: there is no such file"),
        (["--prompt-image", "in.png", "--images", "3"], r"--images 3: counts images of the test split"),
        (["--prompt-image", "in.png", "--rows", "9"], r"--rows 9: expected 0 to 8"),
        (["--images", "0"], r"--images 0: expected at least 1"),
        (["--prompt", "once"], r"--prompt .*: is for texts; leave it out beside --image out\.png"),
    ):
        assert re.search(answer, refuse("generate", shapes, "--image", "out.png", *words))
    assert "give a name that ends in .png" in refuse("generate", shapes, "--image", "out.jpg")
    assert "--rows 3: only images have it; add --image out.png" in refuse("generate", shapes, "--rows", "3")


def test_a_model_of_texts_completes_no_images(run, refuse):
    run(
        "train",
        "gpt2",
        "--data",
        "book.txt",
        "--out",
        "runs/book",
        *SMALL,
        "train.length=8",
        "train.steps=1",
        "--quiet",
    )
    assert "was trained on text, and completes no images" in refuse("generate", "runs/book", "--image", "out.png")
    assert "the model was trained on other tokens" in refuse("eval", "runs/book", "--data", "image:shapes")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--data", "image:nowhere"], r"nowhere: there is no such file"),
        (["--data", "image:shapes", "data.levels=0"], r"data\.levels: input should be greater than or equal to 2"),
        (["--data", "image:shapes", "data.tokenizer=bpe"], r"unknown key 'data\.tokenizer'"),
        ([*SHAPES, "position.limit=32"], r"has images of up to 64 tokens, and the model 32 learned positions"),
        ([*SHAPES, "train.carry=true"], r"train\.carry: each image of image:shapes stands for itself"),
        (
            [*SHAPES, *TWO_D, "s.pattern.width=16"],
            r"rows of 16 tokens, and those of image:shapes have 8 rows of 8 tokens.*pattern\.width=8",
        ),
        ([*SHAPES, TWO_D[0], "s.pattern.columns=3"], r"width=.* columns=3, which does not divide it"),
    ],
)
def test_train_refuses_in_one_line(refuse, tmp_path, words, answer):
    assert re.search(answer, refuse("train", "gpt2", *SMALL, *words, "train.steps=1"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "words", [["supernet", "gpt2", "dim=24"], ["proxies", "gpt2", "dim=24|48"], ["search", "sublayers"]]
)
def test_verbs_that_read_texts_say_so(refuse, words):
    assert "image:shapes: is a set of images, expected a text" in refuse(*words, "--data", "image:shapes")


def test_compared(run):
    how = ("--steps", "2", "--seeds", "2", "--no-measure", "--json")
    variants = "rows: gpt2 s.pattern=block_local s.pattern.size=16", f"blocks: gpt2 {' '.join(TWO_D)}"
    table = json.loads(run("compare", *variants, *SHAPES, *SMALL, *how, "--out", "both"))
    for row in table["rows"]:
        assert row["bits_per_dim"]["mean"] == pytest.approx(row["mean"] / math.log(2))
        assert row["test"]["bits_per_dim"]["mean"] > 0
    assert table["rows"][1]["config"]["stack"]["alphabet"]["s"]["pattern"]["width"] == 8
