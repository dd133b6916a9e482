"""Tokenizers: what comes back, what is learned, what is saved; and that a text may be cut at their seams."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sublayer.data.chunks import parts
from sublayer.data.tokenizer import Bpe, Byte, Char, NotTextError, Tokenizer, Word
from sublayer.nn.config import ConfigError

TEXT = """the cat sat on the mat .
the dog – der Hund – sat too .

a naïve 戦場 café , a bat
"""
CONFIGS = {
    "byte": Byte.Config(),
    "char": Char.Config(),
    "word": Word.Config(),
    "bpe": Bpe.Config(size=300),
}
texts = st.text(st.characters(exclude_categories=["Cs"]))
of_known_characters = st.text(st.sampled_from(sorted(set(TEXT))))
anything = st.one_of(texts, of_known_characters, st.text(st.sampled_from("ab \n\t\u3000é")))


@pytest.fixture(scope="module", params=CONFIGS)
def tokenizer(request):
    return CONFIGS[request.param].fit([TEXT])


def fitted(kind):
    return CONFIGS[kind].fit([TEXT])


BYTE, CHAR, WORD, BPE = map(fitted, CONFIGS)


@given(anything)
def test_bytes_and_bpe_give_back_any_text(text):
    for tokenizer in (BYTE, BPE):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.binary())
def test_bytes_read_anything(data):
    assert BYTE.bytes_of(BYTE.encode(data)) == data


@given(of_known_characters)
def test_characters_give_back_what_they_have_seen(text):
    assert CHAR.decode(CHAR.encode(text)) == text
    assert len(CHAR.encode(text)) == len(text)


@given(st.text())
def test_unknown_characters_are_unk_and_nothing_else(text):
    ids = CHAR.encode(text)
    assert [token == CHAR.unk for token in ids] == [char not in TEXT for char in text]


@given(anything)
def test_words_give_back_words_and_lines(text):
    tokenizer = Word.Config().fit([text])
    lines = [" ".join(line.split()) for line in text.split("\n")]
    assert tokenizer.decode(tokenizer.encode(text)) == "\n".join(lines)


@given(st.lists(st.integers(0, WORD.vocab - 1)))
def test_any_words_are_encoded_as_they_are_decoded(ids):
    assert WORD.encode(WORD.decode(ids)).tolist() == ids


@given(anything)
def test_words_are_counted_as_wikitext_does(text):
    lines = text.split("\n")
    expected = [word for line in lines[:-1] for word in [*line.split(), "<eos>"]] + lines[-1].split()
    tokenizer = Word.Config().fit([text])
    assert [tokenizer.words[token] for token in tokenizer.encode(text)] == expected


@given(anything, st.integers(1, 4), st.none() | st.integers(2, 6))
def test_frequent_words_come_first_and_rare_ones_are_unknown(text, min_count, max_size):
    tokenizer = Word.Config(min_count=min_count, max_size=max_size).fit([text])
    seen = np.bincount(tokenizer.encode(text), minlength=tokenizer.vocab)
    assert (np.diff(seen) <= 0).all()
    assert max_size is None or tokenizer.vocab <= max_size
    count = Counter(text.split())
    kept = set(tokenizer.words) - {"<eos>", "<unk>"}
    assert all(count[word] >= min_count for word in kept)
    if max_size is None:
        assert kept == {word for word in count if count[word] >= min_count} - {"<eos>", "<unk>"}


@given(anything)
def test_a_stream_of_ids_gives_the_same_text(text):
    for tokenizer in (BYTE, CHAR, WORD, BPE):
        ids = tokenizer.encode(text).tolist()
        assert "".join(tokenizer.stream(ids)) == tokenizer.decode(ids)


@given(st.lists(st.integers(0, 255)))
def test_a_stream_of_broken_text_is_shown_like_the_whole(ids):
    assert "".join(BYTE.stream(ids)) == BYTE.decode(ids)


@given(anything, st.integers(1, 40))
def test_a_text_cut_at_seams_encodes_and_counts_as_the_whole(text, size):
    data = np.frombuffer(text.encode(), np.uint8)
    for tokenizer in (BYTE, CHAR, WORD, BPE):
        cut = list(parts(data, tokenizer.seam, size))
        assert b"".join(part for _, part in cut) == text.encode()
        assert [start for start, _ in cut] == np.cumsum([0, *(len(part) for _, part in cut)])[:-1].tolist()
        ids = [tokenizer.encode(part) for _, part in cut]
        assert np.concatenate([np.empty(0, tokenizer.dtype), *ids]).tolist() == tokenizer.encode(text).tolist()
    for kind in ("char", "word"):
        assert CONFIGS[kind].fit(part for _, part in parts(data, CONFIGS[kind].owner.seam, size)) == CONFIGS[kind].fit(
            [text]
        )


def test_long_texts_are_cut_inside_bpe_without_a_trace(monkeypatch):
    long = "def f(x):\n\n    return x\nclass A:\n\tpass\n \n" * 50
    whole = BPE.encode(long)
    monkeypatch.setattr("sublayer.data.tokenizer.bpe.AT_ONCE", 30)
    assert (BPE.encode(long) == whole).all()
    assert Bpe.Config(size=280).fit([long]).learned == Bpe.Config(size=280).fit(iter([long])).learned


def test_a_tokenizer_survives_json(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "t.json")
    again = Tokenizer.load(tmp_path / "t.json")
    assert type(again) is type(tokenizer)
    assert again == tokenizer
    assert again.hash == tokenizer.hash
    assert again.vocab == tokenizer.vocab
    assert again.encode(TEXT).tolist() == tokenizer.encode(TEXT).tolist()
    assert isinstance(json.loads((tmp_path / "t.json").read_text()), dict)


def test_learning_twice_gives_the_same(tokenizer):
    assert tokenizer.config.fit([TEXT]) == tokenizer
    assert tokenizer.config.fit([TEXT.encode()]) == tokenizer


def test_ids_are_as_small_as_the_vocabulary_allows(tokenizer):
    ids = tokenizer.encode(TEXT)
    assert ids.dtype == np.uint8 if tokenizer.vocab <= 256 else np.uint16
    assert ids.max() < tokenizer.vocab


def test_ids_come_as_lists_arrays_or_tensors(tokenizer):
    ids = tokenizer.encode(TEXT)
    assert (
        tokenizer.decode(ids)
        == tokenizer.decode(ids.tolist())
        == tokenizer.decode(torch.from_numpy(ids.astype(np.int64)))
    )


def test_foreign_ids_are_refused(tokenizer):
    with pytest.raises(ValueError, match=f"ids: {tokenizer.vocab} is outside the vocabulary of {tokenizer.vocab}"):
        tokenizer.decode([0, tokenizer.vocab])


@pytest.mark.parametrize("kind", ["char", "word", "bpe"])
def test_what_is_no_text_is_refused_with_its_place(kind):
    with pytest.raises(NotTextError, match=r"byte 2: 0xff is not UTF-8, expected text; .* byte tokenizer"):
        fitted(kind).encode(b"ab\xff")
    with pytest.raises(NotTextError, match="byte 1"):
        CONFIGS[kind].fit(iter([b"a\xff"]))


def test_an_edited_tokenizer_is_refused(tmp_path):
    path = tmp_path / "t.json"
    WORD.save(path)
    path.write_text(path.read_text().replace('"cat"', '"cut"'))
    with pytest.raises(ValueError, match="does not match its hash"):
        Tokenizer.load(path)
    for text in ("{", "[]", '{"format": 1, "tokenizer": "word", "learned": {}}', '{"format": 1, "tokenizer": "wrod"}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"t\.json: not a tokenizer: ") as error:
            Tokenizer.load(path)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="there is no such file, expected a saved tokenizer"):
        Tokenizer.load(tmp_path / "missing.json")


def test_impossible_sizes_are_refused():
    with pytest.raises(ConfigError, match=r"bpe\.size: input should be greater than or equal to 256"):
        Bpe.Config(size=100)
    with pytest.raises(ConfigError, match=r"word\.max_size"):
        Word.Config(max_size=1)


def test_bpe_learns_pairs_up_to_its_size():
    many = Bpe.Config(size=290).fit([TEXT * 3])
    assert many.vocab == 290
    assert len(many.encode(TEXT)) < len(TEXT.encode())
    assert Bpe.Config(size=5000).fit([TEXT]).vocab < 5000


def test_a_tokenizer_of_ones_own_is_saved_like_any(tmp_path):
    class Line(Tokenizer):
        class Config(Tokenizer.Config, tag="line_for_test"):
            upper: bool = False

        @staticmethod
        def learn(config, texts):
            return sorted({line for text in texts for line in text.splitlines()})

        def __init__(self, config, learned):
            super().__init__(config, learned)
            self.vocab = len(learned)

    Line.Config(upper=True).fit(["b\na\n"]).save(tmp_path / "t.json")
    again = Tokenizer.load(tmp_path / "t.json")
    assert again.learned == ["a", "b"]
    assert again.config == Line.Config(upper=True)
    Tokenizer.Config.registry.pop("line_for_test")
