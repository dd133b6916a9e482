"""Models learn: a loss far below that of guessing."""

import math

import pytest

import sublayer
from tests.training import tiny

FAST = {"dim": 32, "train__steps": 50, "train__lr": 0.01, "train__warmup": 5, "train__batch": 8}
CHARS = {"data__tokenizer": "char", "train__eval_every": 50}


@pytest.fixture(scope="module")
def song(book, tmp_path_factory):
    """Every window of it begins elsewhere: 13 and 16 have no divisor in common."""
    path = tmp_path_factory.mktemp("song") / "song.txt"
    path.write_text("row the boat\n" * 300)
    return path


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl"])
def test_a_decoder_learns_a_song(song, tmp_path, paper):
    still = {"embedding.dropout": 0.0, "residual.dropout": 0.0}
    run = tiny.train(song, tmp_path / "run", paper, **FAST, **CHARS, **still)
    guessing = math.log(run.tokenizer.vocab)
    assert tiny.losses(run)[-1] < 0.2 * guessing
    assert tiny.losses(run, "valid_loss")[-1] < 0.2 * guessing
    assert sublayer.load(run.path).generate("row the ", tokens=4, temperature=0) == "boat"


def test_an_encoder_learns_to_fill_in(song, tmp_path):
    """In one pass through a text whose letters stand at fixed places of its windows."""
    text = tmp_path / "rows.txt"
    text.write_text("row " * 3000)
    run = tiny.train(text, tmp_path / "run", "bert-base", **FAST, **CHARS)
    assert run.model_config.vocab == run.tokenizer.vocab + 1
    assert tiny.losses(run)[-1] < 0.3 * math.log(run.tokenizer.vocab)


@pytest.mark.parametrize("kind", [{"kind": "word"}, {"kind": "bpe", "size": 270}], ids=str)
def test_words_and_pairs_of_bytes(song, tmp_path, kind):
    run = tiny.train(song, tmp_path / "run", data__tokenizer=kind, train__steps=2)
    assert sublayer.load(run.path).generate("row", tokens=3)
