"""How much text some targets stand for: exact for each tokenizer, wherever the scoring stops."""

import re

import numpy as np
import pytest

from sublayer.data import DataConfig, Fractions, prepare
from sublayer.evaluation import Score, score
from sublayer.evaluation import counts as rooms
from sublayer.evaluation.counts import count
from tests.evaluation.slow import model_of

TEXT = "Näher  dem naïve café 猫 sat\n\n on\tthe mat; ω → ∞.\nAnd\u00a0then it slept \n" * 3 + "one last Ж"
KNOWN = TEXT.replace("Ж", "").replace("猫", "")


@pytest.fixture(params=["byte", "char", "word", {"kind": "bpe", "size": 280}], ids=["byte", "char", "word", "bpe"])
def data(request, tmp_path):
    """A text in the tokens of a tokenizer that has not seen all of its characters and words."""
    (tmp_path / "known.txt").write_text(KNOWN, encoding="utf-8")
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    whole = {"splits": Fractions.Config(valid=0, test=0), "tokenizer": request.param}
    known = prepare(DataConfig(source=str(tmp_path / "known.txt"), **whole), tmp_path / "cache")
    text = DataConfig(source=str(tmp_path / "book.txt"), **whole)
    return prepare(text, tmp_path / "cache", tokenizer=known.tokenizer)


def pieces(data) -> list[bytes]:
    """What each token stands for; white space goes with the word before it, and a line's end is a token."""
    tag = data.tokenizer.config.tag
    if tag == "char":
        return [character.encode() for character in TEXT]
    if tag == "word":
        return [match.group().encode() for match in re.finditer(r"\n[^\S\n]*|\S+[^\S\n]*", TEXT)]
    return [data.tokenizer.bytes_of([token]) for token in data.train.ids]


def figures(stretch: bytes) -> tuple[int, int, int]:
    return len(stretch), sum(byte & 0xC0 != 0x80 for byte in stretch), len(stretch.split())


def test_of_every_beginning(data, monkeypatch):
    monkeypatch.setattr(rooms, "ENCODED_AT_ONCE", 50)
    monkeypatch.setattr(rooms, "DECODED_AT_ONCE", 7)
    each = pieces(data)
    assert b"".join(each) == TEXT.encode()
    assert len(each) == len(data.train)
    for targets in range(1, len(each)):
        stretch = b"".join(each[1 : 1 + targets])
        assert count(data.train, targets, data.tokenizer) == figures(stretch), targets


def test_in_proportion_without_a_tokenizer(data):
    tokens = data.train
    whole = figures(TEXT.encode())
    assert count(tokens, len(tokens) - 1) == tuple(round(n * (len(tokens) - 1) / len(tokens)) for n in whole)
    if data.tokenizer.verbatim:
        assert count(tokens, 11)[0] == 11


def test_of_bare_ids(data):
    ids = data.train.ids
    assert count(ids, 20) == (None, None, None)
    found = count(ids, 20, data.tokenizer)
    if data.tokenizer.config.tag in ("byte", "bpe"):
        assert found == count(data.train, 20, data.tokenizer)
    else:
        assert found == figures(data.tokenizer.decode(ids[1:21]).encode())


def test_a_score_has_the_counts(data):
    model = model_of("llama", vocab=data.vocab)
    tokens = data.train
    for limit in (None, 9):
        found = score(model, tokens, length=8, limit=limit, tokenizer=data.tokenizer)
        targets = limit or len(tokens) - 1
        assert (found.bytes, found.characters, found.words) == figures(b"".join(pieces(data)[1 : 1 + targets]))
        assert found.tokens == targets
    assert score(model, tokens.ids, length=8).bits_per_byte is None


def test_units():
    found = Score(nats=8 * np.log(2), tokens=4, bytes=16, characters=8, words=2)
    assert found.loss == pytest.approx(2 * np.log(2))
    assert (found.perplexity, found.word_perplexity) == (pytest.approx(4), pytest.approx(16))
    units = (found.bits_per_token, found.bits_per_byte, found.bits_per_character)
    assert units == (pytest.approx(2), pytest.approx(0.5), pytest.approx(1))


def test_a_dump_is_plain_json():
    import json

    told = json.loads(json.dumps(Score(2.0, 4, 8, 8, 0).dump(), allow_nan=False))
    assert (told["loss"], told["bytes"], told["word_perplexity"]) == (0.5, 8, None)
    assert json.loads(json.dumps(Score(1e6, 1).dump(), allow_nan=False))["perplexity"] is None
    assert json.dumps(Score(float("nan"), 1).dump(), allow_nan=False)
