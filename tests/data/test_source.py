"""Sources: every kind gives the same text, what a user types is understood, wrong input answers in one line."""

import gzip
import io
import json
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.data.source import File, FolderSource, Glob, Hub, Jsonl, Piece, Source, Stdin, Stdlib
from sublayer.data.source.base import whole
from sublayer.nn.config import Config, ConfigError

TEXT = "The cat sat.\nThe dog – not.\n".encode()


def read(config):
    return dict(config.build().documents())


def joined(config):
    return b"".join(piece.data for piece in config.build().joined())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "b.txt").write_bytes(b"second")
    (tmp_path / "a.txt").write_bytes(b"first")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "c.md").write_bytes(b"third\n")
    (tmp_path / ".hidden").write_bytes(b"not me")
    return tmp_path


@given(
    st.lists(st.lists(st.binary(max_size=5), min_size=1, max_size=4), max_size=5),
)
def test_pieces_put_together_are_the_documents(documents):
    def pieces():
        for number, parts in enumerate(documents):
            for place, data in enumerate(parts):
                yield Piece(str(number), data, begins=place == 0)

    assert [text for _, text in whole(pieces())] == [b"".join(parts) for parts in documents]


def test_a_file_is_read_as_it_is_and_unpacked(tmp_path):
    plain, packed = tmp_path / "x.txt", tmp_path / "x.gz"
    plain.write_bytes(TEXT)
    packed.write_bytes(gzip.compress(TEXT[:10]) + gzip.compress(TEXT[10:]))
    assert joined(File.Config(path=str(plain))) == TEXT
    assert joined(File.Config(path=str(packed))) == TEXT


def test_a_large_file_comes_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("sublayer.data.source.files.BLOCK", 5)
    (tmp_path / "x.txt").write_bytes(TEXT)
    pieces = list(File.Config(path=str(tmp_path / "x.txt")).build().pieces())
    assert len(pieces) == -(-len(TEXT) // 5)
    assert [piece.begins for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert read(File.Config(path=str(tmp_path / "x.txt"))) == {str(tmp_path / "x.txt"): TEXT}


def test_a_folder_is_read_in_the_order_of_paths_without_what_is_hidden(folder):
    assert list(read(FolderSource.Config(path=str(folder))).values()) == [b"first", b"second", b"third\n"]


def test_a_line_end_stands_between_documents_that_lack_one(folder):
    assert joined(FolderSource.Config(path=str(folder))) == b"first\nsecond\nthird\n"
    assert joined(Glob.Config(path=str(folder / "**/*.txt"))) == b"first\nsecond"


def test_a_byte_is_traced_to_its_document(folder):
    source = FolderSource.Config(path=str(folder)).build()
    assert source.locate(0) == f"{folder / 'a.txt'}, byte 0"
    assert source.locate(8) == f"{folder / 'b.txt'}, byte 2"


def test_json_lines(tmp_path):
    lines = [{"text": "one"}, {"text": "zwei – drei\n", "id": 3}, {"text": ""}]
    text = "\n".join(json.dumps(line) for line in lines) + "\n\n"
    for name, data in (("x.jsonl", text.encode()), ("x.jsonl.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(data)
        config = Source.guess(str(tmp_path / name))
        assert isinstance(config, Jsonl.Config)
        assert joined(config) == "one\nzwei – drei\n".encode()
    assert joined(Jsonl.Config(path=str(tmp_path / "*.jsonl*"))).count(b"one") == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 3: not JSON (Expecting property name"),
        ("[1]", "line 3: a list, expected an object with a field 'text'"),
        ('{"body": "x", "id": 1}', "line 3: there is no field 'text'; set data.source.field to one of body, id"),
        ('{"text": 5}', "line 3: the field 'text' is a int, expected a text"),
        ('{"text": "\\ud800"}', "line 3: the field 'text' holds half a surrogate pair"),
        ("\udcff", "line 3: not JSON (0xff at column 1 is not UTF-8)"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(tmp_path, line, said):
    path = tmp_path / "x.jsonl"
    path.write_bytes(f'{{"text": "fine"}}\n\n{line}\n'.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"line 3") as error:
        joined(Jsonl.Config(path=str(path)))
    assert said in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    assert joined(Stdin.Config()) == TEXT


def test_a_terminal_as_standard_input_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(isatty=lambda: True))
    with pytest.raises(ValueError, match="nothing is piped into it"):
        joined(Stdin.Config())


def test_the_standard_library_is_there_sorted_and_is_text():
    names = list(read(Stdlib.Config()))
    assert names == sorted(names)
    assert {"abc.py", "json/decoder.py"} <= set(names)
    assert not any("test" in name.split("/")[:-1] or "site-packages" in name for name in names)
    joined(Stdlib.Config()).decode()


def test_the_standard_library_skips_what_is_no_text(tmp_path, monkeypatch):
    monkeypatch.setattr(Stdlib, "root", tmp_path)
    with pytest.raises(ValueError, match=r"no \.py files in"):
        Stdlib.Config().build().fingerprint()
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "t.py").write_bytes(b"assert 1\n")
    (tmp_path / "latin.py").write_bytes(b"# \xe9\n")
    (tmp_path / "good.py").write_bytes(b"x = 1\n")
    assert list(read(Stdlib.Config())) == ["good.py"]
    assert list(read(Stdlib.Config(tests=True))) == ["good.py", "test/t.py"]


def test_the_hub_needs_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"not installed; pip install 'sublayer\[data\]'"):
        joined(Hub.Config(path="owner/name"))


def test_rows_of_the_hub_and_of_parquet_files_are_documents(tmp_path, monkeypatch):
    asked = []

    def load_dataset(*args, **kwargs):
        asked.append((args, kwargs))
        return iter([{"text": "one"}, {"text": "two"}])

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    assert joined(Source.guess("hub:owner/name:raw")) == b"one\ntwo"
    assert asked[-1] == (("owner/name", "raw"), {"split": "train", "revision": None, "streaming": True})
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    assert joined(Source.guess(str(tmp_path / "x.parquet"))) == b"one\ntwo"
    assert asked[-1][0] == ("parquet",)


def test_what_goes_wrong_on_the_hub_is_one_line(monkeypatch):
    def load_dataset(*args, **kwargs):
        raise RuntimeError("no\nnetwork")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(ValueError, match="owner/name cannot be read: no network; check its name"):
        joined(Hub.Config(path="owner/name"))


def test_fingerprints_follow_the_content_and_the_options_not_the_place(tmp_path):
    here, there = tmp_path / "a.txt", tmp_path / "b.txt"
    here.write_bytes(TEXT)
    there.write_bytes(TEXT)

    def name(path, **options):
        return File.Config(path=str(path), **options).build().fingerprint()

    before = name(here)
    assert before == name(there)
    assert before != name(here, text8=True)
    here.write_bytes(TEXT + b".")
    assert before != name(here)
    assert Stdin.Config().build().fingerprint() is None
    assert Hub.Config(path="a/b").build().fingerprint() is None
    assert Hub.Config(path="a/b", revision="0" * 40).build().fingerprint() is not None


def test_guessing_what_a_user_types(folder, monkeypatch):
    monkeypatch.chdir(folder)
    expected = {
        "stdlib": Stdlib.Config(),
        "-": Stdin.Config(),
        "a.txt": File.Config(path="a.txt"),
        "missing.gz": File.Config(path="missing.gz"),
        "deep": FolderSource.Config(path="deep"),
        "missing/": FolderSource.Config(path="missing/"),
        "*.md": Glob.Config(path="*.md"),
        "**/*.jsonl.gz": Jsonl.Config(path="**/*.jsonl.gz"),
        "x.jsonl": Jsonl.Config(path="x.jsonl"),
        "x.parquet": Hub.Config(path="x.parquet"),
        "hub:a/b": Hub.Config(path="a/b"),
    }
    assert {said: Source.guess(said) for said in expected} == expected
    (folder / "[1].txt").write_bytes(b"x")
    assert Source.guess("[1].txt") == File.Config(path="[1].txt")
    with pytest.raises(ConfigError, match=r"data\.path: a value is required"):
        Source.guess("file")
    with pytest.raises(ConfigError, match="nothing is named"):
        Source.guess(" ")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("missing.txt", "missing.txt: there is no such file; give a file, a folder"),
        ("missing/", "missing: there is no such file"),
        ("*.nothing", "*.nothing: matches no file"),
        ("empty/", "empty: holds no files"),
        ("broken.gz", "broken.gz: not a whole gzip file"),
        ("cut.gz", "cut.gz: not a whole gzip file"),
        ("missing.jsonl", "missing.jsonl: there is no such file"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(tmp_path, monkeypatch, said, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.gz").write_bytes(b"this is no gzip")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(TEXT * 100)[:-20])
    with pytest.raises(ValueError, match=r".") as error:
        joined(Source.guess(said))
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_where_a_file_is_expected_and_the_reverse(folder):
    with pytest.raises(ValueError, match="is a folder, expected a file"):
        joined(File.Config(path=str(folder)))
    with pytest.raises(ValueError, match="is a file, expected a folder"):
        joined(FolderSource.Config(path=str(folder / "a.txt")))


@pytest.mark.parametrize("kind", ["file", "folder", "glob", "jsonl", "hub", "stdin", "stdlib", "cached"])
def test_every_kind_survives_json(kind):
    fields = {"stdin": {}, "stdlib": {"tests": True}, "cached": {"text": "abc"}}.get(kind, {"path": "somewhere"})
    config = Source.Config.parse({"kind": kind, "text8": True, **fields})
    assert Source.Config.from_json(config.to_json()) == config


def test_a_kind_of_ones_own():
    class Mine(Source):
        class Config(Source.Config, tag="mine_for_test"):
            words: int = 2

        def read(self):
            yield Piece("mine", b"word " * self.config.words, begins=True)

    assert joined(Source.guess("mine_for_test")) == b"word word "
    assert issubclass(Source.Config.registry.pop("mine_for_test"), Config)
