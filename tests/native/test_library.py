"""Native code: kept whole, for this machine, where nobody else writes; and going on without it."""

import logging
import os
import shutil
import sys

import pytest

from sublayer.generation import generate
from sublayer.generation.native.source import SOURCE
from sublayer.native import library
from tests.generation.models import writer


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A cache of its own, and a compiler in a hurry."""
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path))
    monkeypatch.delenv("SUBLAYER_NATIVE")
    monkeypatch.setattr(library, "BASE", ("-O0", "-shared", "-fPIC"))
    library.load.cache_clear()
    yield tmp_path
    library.load.cache_clear()


def kept(cache):
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def load():
    return library.load(SOURCE, "generation")


def again():
    library.load.cache_clear()
    return load()


def test_it_is_compiled_once_and_kept(cache, monkeypatch):
    assert load() is not None
    (name,) = kept(cache)
    assert name.startswith("step-")
    assert name.endswith(".so")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert again() is not None


def test_its_name_says_what_it_was_made_of(cache, monkeypatch, tmp_path):
    names = {library._name(SOURCE, flags) for flags in library.FLAGS}
    monkeypatch.setattr(library, "_processor", lambda: "another")
    names.add(library._name(SOURCE, library.FLAGS[0]))
    copy = shutil.copytree(SOURCE.parent, tmp_path / "copy") / SOURCE.name
    assert library._name(copy, library.FLAGS[0]) in names
    (copy.parent / "matrix.h").write_text("/* another */")
    names.add(library._name(copy, library.FLAGS[0]))
    assert len(names) == 5


def test_it_may_be_kept_elsewhere_or_not_be_wanted(cache, monkeypatch, caplog):
    monkeypatch.setenv("SUBLAYER_NATIVE", str(cache / "elsewhere"))
    assert load() is not None
    assert [path.name for path in cache.iterdir()] == ["elsewhere"]
    monkeypatch.setenv("SUBLAYER_NATIVE", "0")
    assert again() is None
    assert not caplog.records


def test_its_digest_is_that_of_the_file(cache):
    made = load()
    assert kept(cache) == [f"step-{library._name(SOURCE, library.FLAGS[0])}-{made.digest}.so"]
    assert again().digest == made.digest


@pytest.mark.parametrize("damage", [lambda whole: b"", lambda whole: whole[:5000], lambda whole: whole[:-1] + b"!"])
def test_a_damaged_library_is_made_anew(cache, monkeypatch, damage):
    load()
    (file,) = (cache / "native").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert again() is not None
    monkeypatch.setenv("CC", "no-such-compiler")
    assert again() is not None


@pytest.mark.skipif(sys.platform == "win32", reason="folders there have other rights")
def test_what_others_may_have_written_is_not_run(cache):
    folder = cache / "native"
    folder.mkdir()
    folder.chmod(0o777)
    content = b"not a library"
    planted = folder / f"step-{library._name(SOURCE, library.FLAGS[0])}-{library._digest(content)}.so"
    planted.write_bytes(content)
    assert load() is not None
    assert kept(cache) == [planted.name]


def test_a_cache_that_cannot_be_written_is_no_obstacle(cache, monkeypatch):
    (cache / "file").write_text("")
    monkeypatch.setenv("SUBLAYER_CACHE", str(cache / "file"))
    assert load() is not None
    assert kept(cache) == ["file"]


def test_without_openmp_it_has_one_thread(cache, monkeypatch):
    monkeypatch.setattr(library, "FLAGS", ((),))
    model = writer("llama")
    assert generate(model, [[1, 2], [3]], tokens=8) == generate(model, [[1, 2], [3]], tokens=8, native=False)


@pytest.mark.parametrize(
    ("compiler", "reason"),
    [("no-such-compiler", "no-such-compiler"), ("false", "'false'"), ('"gcc', "No closing quotation")],
)
def test_without_a_compiler_it_goes_on_and_says_so_once(cache, monkeypatch, caplog, compiler, reason):
    monkeypatch.setenv("CC", compiler)
    model = writer("gpt2")
    expected = generate(model, [[1, 2]], tokens=5, native=False)
    with caplog.at_level(logging.WARNING):
        assert generate(model, [[1, 2]], tokens=5) == generate(model, [[1, 2]], tokens=5) == expected
    (record,) = caplog.records
    assert "generation goes on without native code, more slowly: " in record.message
    assert reason in record.message
    assert kept(cache) == []


def test_the_compiler_may_be_a_command_with_options(cache, monkeypatch):
    monkeypatch.setenv("CC", f"env {library._compiler()[0]} -DUNUSED")
    assert load() is not None


def test_one_that_was_loaded_needs_no_file(cache, monkeypatch):
    """Nothing is left in the folder for temporary files."""
    drafts = cache / "drafts"
    drafts.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(drafts))
    assert load() is not None
    assert os.listdir(drafts) == []
