"""Files and values made to break things: one line each."""

import json

import pytest

from sublayer.data import DataConfig, prepare
from sublayer.data.tokenizer import Bpe, Char, Tokenizer, Word
from sublayer.files import cache
from sublayer.nn.config import ConfigError

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (DEEP, "line 2: not JSON .nested too deeply"),
        ('{"text": ' + DEEP + "}", "line 2: not JSON .nested too deeply"),
        ('{"text": ' + "9" * 5000 + "}", "line 2: not JSON .Exceeds the limit"),
    ],
)
def test_json_lines_nested_thousands_deep_are_refused(tmp_path, line, words):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "fine"}\n' + line + "\n")
    with pytest.raises(ValueError, match=words) as error:
        prepare(DataConfig(source=str(path)), tmp_path / "cache")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [["file"], {"kind": "file"}, 3, None, True])
@pytest.mark.parametrize("field", ["source", "splits", "tokenizer"])
def test_a_kind_that_is_no_name_is_refused(field, kind):
    with pytest.raises(ConfigError, match=f"{field}: .*kind") as error:
        DataConfig.parse({"kind": "data", field: {"kind": kind}})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", [1 << 21, 10**12, 10**20])
def test_a_vocabulary_beyond_reason_is_refused(size):
    with pytest.raises(ConfigError, match=f"size: .*less than or equal to 1048576, got {size}"):
        Bpe.Config(size=size)
    with pytest.raises(ConfigError, match=r"min_count: .*less than or equal to"):
        Bpe.Config(min_count=10**20)


def test_the_largest_vocabulary_is_what_the_text_gives():
    assert Bpe.Config(size=1 << 20).fit(["a b a b a b"]).vocab < 300


def saved(path, kind, learned):
    data = {"format": 1, "tokenizer": {"kind": kind}, "learned": learned}
    path.write_text(json.dumps({**data, "hash": cache.key(**data)}))
    return path


@pytest.mark.parametrize(
    ("kind", "learned"),
    [
        ("char", {"characters": ["a"]}),
        ("char", {"characters": [-1]}),
        ("char", {"characters": [0x110000]}),
        ("char", {"characters": [10**30]}),
        ("char", {"characters": 3}),
        ("char", {"characters": [1.5]}),
        ("char", []),
        ("char", None),
        ("word", {"words": ["<eos>", "<unk>", 3]}),
        ("word", {"words": ["<eos>", "<unk>", {}]}),
        ("word", {"words": ["<eos>"]}),
        ("word", {"words": {"<eos>": 1, "<unk>": 2}}),
        ("word", 7),
        ("bpe", {"model": 3}),
        ("bpe", {"model": {"type": "WordLevel", "vocab": {"é é": 0}, "unk_token": "é é"}}),
        ("bpe", {"model": {"type": "BPE", "vocab": {"a": 0, "b": 7}, "merges": []}}),
        ("bpe", None),
        ("huggingface", None),
        ("huggingface", {"model": []}),
    ],
)
def test_a_tokenizer_file_of_wrong_types_is_refused(tmp_path, kind, learned):
    path = saved(tmp_path / "tokenizer.json", kind, learned)
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a tokenizer: ") as error:
        Tokenizer.load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [DEEP, '{"format": 1, "tokenizer": "byte", "learned": ' + DEEP + "}", '{"format": 1, "tokenizer": ["byte"]}'],
)
def test_a_tokenizer_file_of_another_shape_is_refused(tmp_path, text):
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a tokenizer: ") as error:
        Tokenizer.load(tmp_path / "tokenizer.json")
    assert "\n" not in str(error.value)


def test_good_files_still_load(tmp_path):
    for config in (Char.Config(), Word.Config(), Bpe.Config(size=260)):
        found = config.fit(["a b a b\n"])
        found.save(tmp_path / "tokenizer.json")
        assert Tokenizer.load(tmp_path / "tokenizer.json") == found
