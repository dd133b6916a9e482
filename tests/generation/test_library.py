"""The native step's library: kept whole, for this machine, where nobody else writes; and going on without it."""

import logging
import os
import sys

import pytest

from sublayer.generation import generate
from sublayer.generation.native import library
from tests.generation.models import writer


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A cache of its own, and a compiler in a hurry."""
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path))
    monkeypatch.setattr(library, "BASE", ("-O0", "-shared", "-fPIC"))
    library.load.cache_clear()
    yield tmp_path
    library.load.cache_clear()


def kept(cache):
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def again():
    library.load.cache_clear()
    return library.load()


def test_it_is_compiled_once_and_kept(cache, monkeypatch):
    assert library.load() is not None
    (name,) = kept(cache)
    assert name.startswith("step-")
    assert name.endswith(".so")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert again() is not None


def test_its_name_says_what_it_was_made_of(cache, monkeypatch):
    names = {library._name(flags) for flags in library.FLAGS}
    monkeypatch.setattr(library, "_processor", lambda: "another")
    names.add(library._name(library.FLAGS[0]))
    monkeypatch.setattr(library, "SOURCES", ("step.c",))
    names.add(library._name(library.FLAGS[0]))
    assert len(names) == 5


@pytest.mark.parametrize("damage", [lambda whole: b"", lambda whole: whole[:5000], lambda whole: whole[:-1] + b"!"])
def test_a_damaged_library_is_made_anew(cache, monkeypatch, damage):
    library.load()
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
    planted = folder / f"step-{library._name(library.FLAGS[0])}-{library._digest(content)}.so"
    planted.write_bytes(content)
    assert library.load() is not None
    assert kept(cache) == [planted.name]


def test_a_cache_that_cannot_be_written_is_no_obstacle(cache, monkeypatch):
    (cache / "file").write_text("")
    monkeypatch.setenv("SUBLAYER_CACHE", str(cache / "file"))
    assert library.load() is not None
    assert kept(cache) == ["file"]


def test_without_openmp_it_has_one_thread(cache, monkeypatch):
    monkeypatch.setattr(library, "FLAGS", ((),))
    model = writer("llama")
    assert generate(model, [[1, 2], [3]], tokens=8) == generate(model, [[1, 2], [3]], tokens=8, native=False)


@pytest.mark.parametrize(("compiler", "reason"), [("no-such-compiler", "no-such-compiler"), ("false", "'false'")])
def test_without_a_compiler_it_goes_on_and_says_so_once(cache, monkeypatch, caplog, compiler, reason):
    monkeypatch.setenv("CC", compiler)
    model = writer("gpt2")
    expected = generate(model, [[1, 2]], tokens=5, native=False)
    with caplog.at_level(logging.WARNING):
        assert generate(model, [[1, 2]], tokens=5) == generate(model, [[1, 2]], tokens=5) == expected
    (record,) = caplog.records
    assert "goes on without its native step, more slowly: " in record.message
    assert reason in record.message
    assert kept(cache) == []


def test_the_compiler_may_be_a_command_with_options(cache, monkeypatch):
    monkeypatch.setenv("CC", f"env {library._compiler()[0]} -DUNUSED")
    assert library.load() is not None


def test_one_that_was_loaded_needs_no_file(cache, monkeypatch):
    """Nothing is left in the folder for temporary files."""
    drafts = cache / "drafts"
    drafts.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(drafts))
    assert library.load() is not None
    assert os.listdir(drafts) == []
