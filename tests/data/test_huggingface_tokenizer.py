"""A tokenizer.json of Hugging Face: what comes back, what is saved, what is refused."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer as Theirs
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from sublayer.data import DataConfig, prepare
from sublayer.data.chunks import parts
from sublayer.data.tokenizer import HuggingFace, Tokenizer
from sublayer.evaluation.counts import count

TEXT = "the cat sat on the mat.\nthe dog – der Hund – sat too.\n\na naïve 戦場 café, a bat 🐱\n" * 3


def byte_level():
    found = Theirs(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|end|>"]
    )
    found.train_from_iterator([TEXT], trainer)
    return found


def word_piece():
    found = Theirs(models.WordPiece(unk_token="[UNK]"))
    found.normalizer = normalizers.Lowercase()
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.decoder = decoders.WordPiece()
    found.train_from_iterator([TEXT], trainers.WordPieceTrainer(vocab_size=90, special_tokens=["[UNK]", "[CLS]"]))
    return found


def sentence_piece():
    found = Theirs(models.BPE(byte_fallback=True, unk_token="<unk>"))
    found.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    found.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")])
    found.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=120, special_tokens=["<unk>"]))
    return found


MADE = {"byte_level": byte_level, "word_piece": word_piece, "sentence_piece": sentence_piece}


@pytest.fixture(params=MADE)
def both(request, tmp_path):
    theirs = MADE[request.param]()
    theirs.enable_truncation(5)
    theirs.enable_padding(length=9)
    theirs.save(str(tmp_path / "tokenizer.json"))
    theirs.no_truncation()
    theirs.no_padding()
    return theirs, HuggingFace.Config(path=str(tmp_path / "tokenizer.json")).fit([])


def test_ids_and_texts_are_theirs(both):
    theirs, ours = both
    ids = ours.encode(TEXT)
    assert ids.tolist() == theirs.encode(TEXT, add_special_tokens=False).ids
    assert ours.decode(ids) == theirs.decode(ids.tolist(), skip_special_tokens=False)
    assert ours.vocab == theirs.get_vocab_size()
    assert "".join(ours.stream(ids.tolist())) == ours.decode(ids)
    assert "".join(ours.stream(ids[:7].tolist())) == ours.decode(ids[:7])


def test_a_text_may_be_cut_where_it_allows(both):
    _, ours = both
    data = np.frombuffer(TEXT.encode(), np.uint8)
    pieces = [ours.encode(piece) for _, piece in parts(data, ours.seam, size=20)]
    assert np.concatenate(pieces).tolist() == ours.encode(TEXT).tolist()


def test_it_is_saved_whole_and_its_hash_does_not_depend_on_the_path(both, tmp_path):
    _, ours = both
    ours.save(tmp_path / "saved.json")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tokenizer.json").rename(tmp_path / "elsewhere" / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "saved.json")
    moved = HuggingFace.Config(path=str(tmp_path / "elsewhere")).fit([])
    assert again == ours == moved
    assert again.encode(TEXT).tolist() == ours.encode(TEXT).tolist()


def test_a_path_stands_for_the_tokenizer_and_bytes_are_counted(both, tmp_path, monkeypatch):
    (tmp_path / "book.txt").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    config = DataConfig(source="book.txt", tokenizer="tokenizer.json")
    assert config == DataConfig(source="book.txt").but(tokenizer="tokenizer.json")
    data = prepare(config, tmp_path / "cache")
    assert data.tokenizer.config.path == str(tmp_path / "tokenizer.json")
    assert data.train.ids.tolist() == both[1].encode(data.train.part.bytes.tobytes()).tolist()
    counted = count(data.train, len(data.train) - 1, data.tokenizer)[0]
    assert 0 < data.train.bytes - counted <= 8
    (tmp_path / "tokenizer.json").unlink()
    assert prepare(data.config, tmp_path / "cache", tokenizer=data.tokenizer).hash == data.hash


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "tokenizer.json"
    (tmp_path / "book.txt").write_text(TEXT)
    config = DataConfig(source=str(tmp_path / "book.txt"), tokenizer=str(path))
    vocab = []
    for make in (byte_level, word_piece):
        make().save(str(path))
        vocab.append(prepare(config, tmp_path / "cache").vocab)
    assert vocab[0] != vocab[1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no such file, expected a tokenizer.json"),
        (b"{", "not a tokenizer.json of Hugging Face"),
        (b"\xff\xfe", "not a tokenizer.json of Hugging Face"),
        (b"[1, 2]", "it has no table 'model'"),
        (b'{"model": 3}', "it has no table 'model'"),
        (b'{"model": {"type": "Unknown"}}', "not a tokenizer.json of Hugging Face"),
        (b'{"model": {"type": "BPE", "vocab": [], "merges": 7}}', "not a tokenizer.json of Hugging Face"),
        (b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}', "vocabulary is empty"),
        (b'{"model": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, content, words):
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as error:
        HuggingFace.Config(path=str(path)).fit([])
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_saved_one_that_was_damaged_is_refused(tmp_path):
    byte_level().save(str(tmp_path / "tokenizer.json"))
    ours = HuggingFace.Config(path=str(tmp_path / "tokenizer.json")).fit([])
    ours.save(tmp_path / "saved.json")
    data = json.loads((tmp_path / "saved.json").read_text())
    data["learned"]["model"]["vocab"] = {"a": "b"}
    (tmp_path / "saved.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"saved\.json: not a tokenizer"):
        Tokenizer.load(tmp_path / "saved.json")
