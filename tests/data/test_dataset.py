"""The whole way: a text as named, divided, tokenised once, kept safely, found again."""

import errno
import gzip
import io
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.data import DataConfig, Fractions, Given, Splits, Tokenizer, Windows, mapped, prepare
from sublayer.data.source import Cached, File, Stdin, Stdlib
from sublayer.data.splits import _line_start
from sublayer.data.text import Text
from sublayer.data.tokens import Split, Tokens
from sublayer.files import cache
from sublayer.nn.config import ConfigError
from tests.data import slow

TEXT = "".join(f"line {n} of the text, naïve as it is\n" for n in range(100))


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def home(tmp_path):
    return tmp_path / "cache"


def config(path, tokenizer="byte", **fields):
    return DataConfig(source=str(path), tokenizer=tokenizer, **fields)


def ids(dataset):
    return [getattr(dataset, name).ids.tolist() for name in ("train", "valid", "test")]


def part_of(data):
    text = Text("key", np.frombuffer(data, np.uint8), Stdin.Config().build())
    return Split(text, 0, len(data))


# Configs


@pytest.mark.parametrize("tokenizer", ["byte", "char", {"kind": "word", "max_size": 9}, {"kind": "bpe", "size": 300}])
@pytest.mark.parametrize("splits", ["fractions", {"kind": "given", "valid": "v.txt", "test": "-"}])
def test_a_config_survives_json(tokenizer, splits):
    asked = DataConfig(source="notes/", tokenizer=tokenizer, splits=splits)
    assert DataConfig.from_json(asked.to_json()) == asked
    assert DataConfig.from_toml(asked.to_toml()) == asked


def test_a_config_is_changed_by_dotted_keys():
    changed = DataConfig().but({"tokenizer": "bpe", "tokenizer.size": 500, "source": "x.txt", "splits.valid": 0.2})
    assert (changed.tokenizer.size, changed.source.path, changed.splits.valid) == (500, "x.txt", 0.2)
    assert changed.but({"source.text8": True}).source == File.Config(path="x.txt", text8=True)
    assert DataConfig().source == Stdlib.Config()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tokenizer": "bpee"}, "data.tokenizer: unknown tokenizer kind 'bpee'; did you mean bpe"),
        ({"splits": {"kind": "fractions", "valid": 0.5, "test": 0.5}}, "leave nothing to train on"),
        ({"splits": {"kind": "fractions", "valid": 1.5}}, "valid: input should be less than 1, got 1.5"),
        ({"source": {"kind": "file"}}, "path: a value is required"),
        ({"sauce": 1}, "data.sauce: there is no such field"),
    ],
)
def test_wrong_configs_are_told_in_one_line(fields, said):
    with pytest.raises(ConfigError) as error:
        DataConfig(**fields)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_with_split_files_is_understood(tmp_path):
    for name in ("train.txt", "val.txt", "test.txt"):
        (tmp_path / name).write_text(name)
    found = DataConfig.guess(str(tmp_path))
    assert found.source == File.Config(path=str(tmp_path / "train.txt"))
    assert found.splits == Given.Config(valid=str(tmp_path / "val.txt"), test=str(tmp_path / "test.txt"))
    (tmp_path / "train.de").write_text("zwei")
    assert DataConfig.guess(str(tmp_path)).source.tag == "folder"
    assert DataConfig.guess("stdlib") == DataConfig()


# Splits


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.floats(0, 0.49), st.floats(0, 0.5))
def test_fractions_cut_between_characters_and_lose_nothing(text, valid, test):
    data = text.encode()
    for at in ("character", "line"):
        splits = Fractions.Config(valid=valid, test=test, at=at).build()
        parts = splits.divide(Stdin.Config(), lambda _, data=data: part_of(data).text)
        assert list(parts) == ["train", "valid", "test"]
        cut = [part.bytes.tobytes() for part in parts.values()]
        assert b"".join(cut) == data
        for piece in cut:
            piece.decode()
        if at == "character":
            assert abs(len(cut[2]) - test * len(data)) <= 4
            assert abs(len(cut[1]) - valid * len(data)) <= 5
        elif cut[2] and cut[0] + cut[1]:
            assert (cut[0] + cut[1]).endswith(b"\n")


def test_a_hundred_bytes_are_divided_as_enwik8_is():
    parts = Fractions.Config().build().divide(Stdin.Config(), lambda _: part_of(bytes(100)).text)
    assert [(part.start, part.stop) for part in parts.values()] == [(0, 90), (90, 95), (95, 100)]


def test_a_line_is_found_across_blocks(monkeypatch):
    monkeypatch.setattr("sublayer.data.splits.SEARCHED_AT_ONCE", 3)
    assert _line_start(np.frombuffer(b"ab\ncdefghij", np.uint8), 10) == 3


def test_given_files_are_their_splits(tmp_path, home):
    for name in ("train", "valid"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(name.encode()))
    asked = config(tmp_path / "train.gz", splits=Given.Config(valid=str(tmp_path / "valid.gz")))
    dataset = prepare(asked, home)
    assert dataset.train.ids.tobytes() == b"train"
    assert dataset.valid.ids.tobytes() == b"valid"
    assert len(dataset.test) == 0


def test_tokenizers_learn_from_train_alone(tmp_path, home):
    (tmp_path / "x.txt").write_text("aaaa bbbb\n" * 90 + "zzzz\n" * 40)
    for kind in ("char", "word"):
        dataset = prepare(config(tmp_path / "x.txt", kind, splits=Fractions.Config(valid=0.1, test=0.1)), home)
        assert "z" not in dataset.tokenizer.decode(range(dataset.vocab))
        assert dataset.tokenizer.unk in dataset.test.ids


# The whole way


@pytest.mark.parametrize("tokenizer", ["byte", "char", "word", {"kind": "bpe", "size": 300}])
def test_the_tokens_are_the_text(book, home, tokenizer):
    dataset = prepare(config(book, tokenizer), home)
    text = "".join(dataset.tokenizer.decode(split) for split in ids(dataset))
    if tokenizer != "word":
        assert text == TEXT
    assert dataset.train.ids.dtype == dataset.tokenizer.dtype
    assert dataset.vocab == dataset.tokenizer.vocab
    assert sum(split.bytes for split in (dataset.train, dataset.valid, dataset.test)) == len(TEXT.encode())
    assert next(Windows(dataset.train, 2, 5)).inputs_BL.shape == (2, 5)


@given(st.text(st.sampled_from("ab \n\té戦")), st.integers(1, 7))
def test_words_and_characters_are_counted_in_blocks(text, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sublayer.data.tokens.COUNTED_AT_ONCE", block)
        tokens = Tokens("train", np.empty(0), part_of(text.encode()))
        assert (tokens.bytes, tokens.characters, tokens.words) == (len(text.encode()), len(text), len(text.split()))


def test_the_second_time_it_comes_from_the_cache(book, home, caplog):
    caplog.set_level(logging.INFO, "sublayer.data")
    first = prepare(config(book, "word"), home)
    assert "tokenising train" in caplog.text
    caplog.clear()
    again = prepare(config(book, "word"), home)
    assert caplog.text == ""
    assert ids(again) == ids(first)
    assert again.hash == first.hash
    assert again.tokenizer == first.tokenizer


def test_another_text_or_tokenizer_is_another_dataset(book, home):
    first = prepare(config(book, "char"), home)
    assert prepare(config(book, {"kind": "char", "min_count": 50}), home).hash != first.hash
    book.write_text("now something else entirely, and longer than it was")
    second = prepare(config(book, "char"), home)
    assert second.hash != first.hash
    assert second.tokenizer.decode(second.train.ids).startswith("now something else entirely")


def test_a_tokenizer_that_has_learned_already_is_used(book, home, tmp_path):
    learned = prepare(config(book, "word"), home).tokenizer
    (tmp_path / "other.txt").write_text("line of unheard words\n" * 30)
    dataset = prepare(config(tmp_path / "other.txt"), home, tokenizer=learned)
    assert dataset.vocab == learned.vocab
    assert dataset.config.tokenizer == learned.config
    assert learned.unk in dataset.train.ids


def test_standard_input_can_be_had_again(home, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    first = prepare(DataConfig(source="-", tokenizer="word"), home)
    assert isinstance(first.config.source, Cached.Config)
    again = prepare(DataConfig.from_json(first.config.to_json()), home)
    assert ids(again) == ids(first)
    assert again.hash == first.hash
    assert not list((home / "texts").glob("arriving.*"))
    with pytest.raises(ValueError, match=r"is no longer in .*; give the text again"):
        prepare(first.config, home / "elsewhere")


def test_standard_input_may_be_a_split(book, home, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"held out")))
    first = prepare(config(book, splits=Given.Config(test="-")), home)
    assert first.test.ids.tobytes() == b"held out"
    assert ids(prepare(first.config, home)) == ids(first)


def test_the_cache_folder_is_given_or_named_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "there"))
    assert cache.folder() == tmp_path / "there"
    assert cache.folder(tmp_path) == tmp_path
    monkeypatch.delenv("SUBLAYER_CACHE")
    assert cache.folder().parts[-2:] == (".cache", "sublayer")


# Wrong input


@pytest.mark.parametrize(
    ("data", "tokenizer", "said"),
    [
        (b"", "byte", "book.txt: the text is empty"),
        (b"some\xfftext" * 9, "char", "book.txt, byte 4: 0xff is not UTF-8, expected text"),
        (b"some\xfftext" * 9, "word", "book.txt, byte 4: 0xff is not UTF-8"),
        (b"some\xfftext" * 9, "bpe", "book.txt, byte 4: 0xff is not UTF-8"),
        (b"fine text " * 9 + b"\xff", "bpe", "book.txt, byte 90: 0xff is not UTF-8"),
    ],
)
def test_wrong_texts_are_told_in_one_line_and_nothing_stays(book, home, data, tokenizer, said):
    book.write_bytes(data)
    with pytest.raises(ValueError, match=r".") as error:
        prepare(config(book, tokenizer), home)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(home.rglob("*.part"))


def test_the_byte_tokenizer_takes_what_is_no_text(book, home):
    data = bytes(range(256)) * 4
    book.write_bytes(data)
    assert b"".join(bytes(split) for split in ids(prepare(config(book), home))) == data


def test_nothing_left_for_train_is_refused(book, home):
    book.write_text("one line without an end")
    with pytest.raises(ValueError, match="nothing is left for train"):
        prepare(config(book, splits=Fractions.Config(at="line")), home)


def test_a_text_that_changes_while_it_is_read_is_refused(book, home, monkeypatch):
    read = File.read

    def changing(self):
        yield from read(self)
        book.write_bytes(b"changed")

    monkeypatch.setattr(File, "read", changing)
    with pytest.raises(ValueError, match="was changed while it was read"):
        prepare(config(book), home)
    monkeypatch.undo()
    assert prepare(config(book), home).train.ids.tobytes() == b"changed"


# Safety


def damaged(path, change):
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize("where", ["texts/*.bin", "tokens/*.bin", "texts/*.json", "tokens/*.json", "tokenizers/*.json"])
@pytest.mark.parametrize(
    "change",
    [lambda data: data[:-2], lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:], lambda data: b""],
    ids=["truncated", "flipped", "emptied"],
)
def test_a_damaged_file_is_made_again_with_one_line(book, home, caplog, where, change):
    first = prepare(config(book, "word"), home)
    expected = ids(first)
    files = sorted(home.glob(where))
    assert files
    for path in files:
        damaged(path, change)
    with caplog.at_level(logging.WARNING, "sublayer.data"):
        again = prepare(config(book, "word"), home)
    assert ids(again) == expected
    assert [record.getMessage().count("again") for record in caplog.records] == [1] * len(files)
    caplog.clear()
    prepare(config(book, "word"), home)
    assert caplog.text == ""


def test_a_full_disk_is_told_in_one_line_and_nothing_half_written_stays(book, home, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match="cannot be written: No space left on device; nothing of it is left") as error:
        prepare(config(book, "word"), home)
    assert "\n" not in str(error.value)
    assert not [path for path in home.rglob("*") if path.suffix in (".part", ".bin", ".json")]
    monkeypatch.undo()
    prepare(config(book, "word"), home)


def test_a_cache_that_cannot_be_written_is_told_in_one_line(book, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ValueError, match="cannot be written: Not a directory; set SUBLAYER_CACHE"):
        prepare(config(book), tmp_path / "file" / "cache")


def test_a_header_without_numbers_is_no_file(home):
    home.mkdir()
    (home / "x.json").write_text(json.dumps({"count": 3, "dtype": "uint8", "crc32": 0}))
    made = mapped.build(home / "x", np.dtype(np.uint8), lambda: [b"abc"])
    assert made.tobytes() == b"abc"
    with pytest.raises(ValueError, match="read-only"):
        made[0] = 1


def test_an_empty_array_is_kept_too(home):
    for _ in range(2):
        assert mapped.build(home / "x", np.dtype(np.uint16), list).tolist() == []


@pytest.mark.parametrize(("vocab", "dtype"), [(2, "u1"), (256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4")])
def test_ids_take_as_few_bytes_as_they_can(vocab, dtype):
    assert mapped.dtype_for(vocab) == np.dtype(dtype)


def in_a_process(asked, home):
    command = [sys.executable, str(Path(slow.__file__)), asked.to_json(), str(home)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def start(*processes):
    """All at once, when all are ready; what each then says."""
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * len(processes)
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    return [process.communicate()[0] for process in processes]


def test_two_processes_at_once_make_it_once(tmp_path, home):
    asked = DataConfig(source=slow.Slow.Config(path=str(tmp_path / "readers")), tokenizer="word")
    told = start(in_a_process(asked, home), in_a_process(asked, home))
    assert told == [prepare(asked, home).hash + "\n"] * 2
    assert (tmp_path / "readers").read_bytes() == b"x"
    assert not list(home.rglob("*.part"))


def test_what_a_killed_process_left_is_never_read(tmp_path, home):
    asked = DataConfig(source=slow.Slow.Config(path=str(tmp_path / "readers")))
    child = in_a_process(asked.but({"source.die": True}), home)
    start(child)
    assert child.returncode == -signal.SIGKILL
    assert list(home.rglob("*.part"))
    assert not list(home.rglob("*.json"))
    dataset = prepare(asked, home)
    assert len(dataset.train) + len(dataset.valid) + len(dataset.test) == len(slow.BLOCK) * slow.BLOCKS
    assert not list(home.rglob("*.part"))


def test_every_family_has_its_phone_book():
    assert set(Splits.Config.registry) == {"fractions", "given"}
    assert {"byte", "char", "word", "bpe"} <= set(Tokenizer.Config.registry)
