"""A checkpoint: whole or absent; every flipped byte is found."""

import errno
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sublayer.runs import Checkpoint
from sublayer.runs.checkpoint import DamagedError, sweep
from tests.training.killing import live

NOTES = {"progress": {"step": 7, "loss": 0.1 + 0.2, "best": None}, "cursor": {"kind": "lanes"}, "title": "naïve"}
TENSORS = {
    "model": {"w": torch.arange(6.0).view(2, 3), "b": torch.tensor(3, dtype=torch.int64)},
    "optimizer": {"w:m": torch.full((2, 3), 0.1, dtype=torch.bfloat16)},
}


@pytest.fixture
def made(tmp_path):
    return Checkpoint.write(tmp_path, 7, NOTES, **TENSORS)


def same(found, expected):
    assert found.keys() == expected.keys()
    assert all(found[name].dtype == expected[name].dtype for name in expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_it_reads_back(made, tmp_path):
    assert (made.path, made.step, made.notes) == (tmp_path / "00000007", 7, NOTES)
    made.verify()
    for name, tensors in TENSORS.items():
        same(made.tensors(name), tensors)
    assert made.tensors("carried") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000007"]


def test_no_tensors_are_tensors_too(tmp_path):
    assert Checkpoint.write(tmp_path, 0, {}, optimizer={}).tensors("optimizer") == {}


def test_the_same_step_again(made, tmp_path):
    again = Checkpoint.write(tmp_path, 7, {"other": 1}, model={})
    assert again == made
    assert (made.notes, made.tensors("optimizer")) == ({"other": 1}, None)


def test_one_more_file(made):
    for value in (1.0, 2.0):
        made.add("average", {"w": torch.tensor(value)})
        made.verify()
        same(made.tensors("average"), {"w": torch.tensor(value)})
    same(made.tensors("model"), TENSORS["model"])
    assert made.notes == NOTES


@given(st.integers(min_value=0), st.integers(0, 7), st.sampled_from(["checkpoint.json", *TENSORS]))
def test_any_flipped_bit_is_found(tmp_path_factory, place, bit, name):
    made = Checkpoint.write(tmp_path_factory.mktemp("damage"), 7, NOTES, **TENSORS)
    file = made.path / (name if name.endswith("json") else f"{name}.safetensors")
    data = bytearray(file.read_bytes())
    data[place % len(data)] ^= 1 << bit
    file.write_bytes(data)
    with pytest.raises(DamagedError, match=f"{file.name}: .*, so the file was damaged") as error:
        made.verify()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["checkpoint.json", "model.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("damage", [None, b"", b"[]", b"7", b"{}", b"\xff" * 40])
def test_files_that_are_gone_cut_or_something_else(made, name, damage):
    (made.path / name).unlink()
    if damage is not None:
        (made.path / name).write_bytes(damage)
    with pytest.raises(DamagedError, match=f"{name}: "):
        made.verify()


def test_a_later_format(tmp_path, monkeypatch):
    monkeypatch.setattr("sublayer.runs.checkpoint.FORMAT", 2)
    made = Checkpoint.write(tmp_path, 7, NOTES)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="format 2, this version reads 1; update Sublayer"):
        made.verify()


def test_removed(made, tmp_path):
    made.remove()
    made.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("nth", range(4))
def test_a_full_disk_leaves_nothing(made, tmp_path, monkeypatch, nth):
    """Wherever it is noticed: at a sync, or at the last rename."""
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    left = [nth]

    def full(*args):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    if nth == 3:
        monkeypatch.setattr(Path, "rename", full)
        left[0] = 0
    else:
        monkeypatch.setattr(os, "fsync", lambda handle: full() if not is_folder(handle) else None)
    with pytest.raises(
        ValueError, match=r"00000008: cannot be written: No space left on device; .* then resume"
    ) as error:
        Checkpoint.write(tmp_path, 8, NOTES, **TENSORS)
    assert "\n" not in str(error.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def is_folder(handle):
    return os.path.isdir(f"/proc/self/fd/{handle}")


def test_what_killed_writers_left_is_swept(made, tmp_path):
    (tmp_path / ".00000008.99-abcd.part").mkdir()
    (tmp_path / ".00000008.99-abcd.part" / "model.safetensors").write_bytes(b"half")
    (made.path / ".average.safetensors.99-abcd.part").write_bytes(b"half")
    (tmp_path / ".run.json.99-abcd.part").write_bytes(b"half")
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.name.endswith(".part")) == []
    made.verify()


AVERAGE = {"w": torch.ones(2)}
WORKS = {
    "write": lambda folder: Checkpoint.write(folder, 8, NOTES, **TENSORS),
    "write again": lambda folder: Checkpoint.write(folder, 7, {}, model=TENSORS["model"]),
    "add": lambda folder: Checkpoint(folder / "00000007").add("average", AVERAGE),
    "add another": lambda folder: Checkpoint(folder / "00000007").add("optimizer", AVERAGE),
    "remove": lambda folder: Checkpoint(folder / "00000007").remove(),
}


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_killed_at_any_event_it_leaves_whole_checkpoints(tmp_path, work):
    def folder(name):
        Checkpoint.write(tmp_path / name, 7, NOTES, **TENSORS)
        return tmp_path / name

    whole = folder("whole")
    life = live(lambda: work(whole), whole)
    assert life
    for event in range(1, life.events + 1):
        here = folder(str(event))
        assert live(lambda here=here: work(here), here, event=event) is None
        sweep(here)
        assert all(path.name.isdigit() for path in here.iterdir())
        for path in here.iterdir():
            Checkpoint(path).verify()
            same(Checkpoint(path).tensors("model"), TENSORS["model"])
