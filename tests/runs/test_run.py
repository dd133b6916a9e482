"""The folder of a run: what is missing, damaged, edited or held by another is told in one line, with the way out."""

import json
import os
import re
import shutil

import pytest

import sublayer
from sublayer.data.tokenizer import Byte
from sublayer.runs import Run, environment, find
from sublayer.runs.environment import differences
from tests.training import tiny
from tests.training.killing import live


@pytest.fixture(scope="module")
def trained(book, tmp_path_factory):
    return tiny.train(
        book, tmp_path_factory.mktemp("runs") / "run", "transformer-xl", train__keep=9, train__save_every=1
    )


@pytest.fixture
def run(trained, tmp_path):
    """A copy to damage."""
    return Run.open(shutil.copytree(trained.path, tmp_path / "run"))


def refused(pattern, call, *args, **kwargs):
    with pytest.raises(ValueError, match=pattern) as error:
        call(*args, **kwargs)
    assert "\n" not in str(error.value)


def flip(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


# Checkpoints


@pytest.mark.parametrize(
    "name", ["checkpoint.json", "model.safetensors", "optimizer.safetensors", "carried.safetensors"]
)
@pytest.mark.parametrize("damage", [flip, os.remove], ids=["flipped", "missing"])
def test_the_checkpoint_before_a_damaged_one_is_offered_and_works(run, trained, name, damage):
    expected = tiny.files(trained.path)
    damage(run.checkpoints[-1].path / name)
    said = rf"00000004/{name}: .*, so the file was damaged\. The checkpoint before it is whole: add --step 3 to use it$"
    refused(said, sublayer.resume, run.path)
    refused(said, sublayer.load, run.path)
    assert sublayer.load(run.path, step=3).generate("line", tokens=3)
    sublayer.resume(run.path, step=3, quiet=True)
    assert tiny.files(run.path) == expected


def test_damage_upon_damage(run):
    for checkpoint in run.checkpoints[2:]:
        flip(checkpoint.path / "model.safetensors")
    refused("add --step 1 to use it", run.checkpoint)
    for checkpoint in run.checkpoints[:2]:
        flip(checkpoint.path / "model.safetensors")
    refused("No earlier checkpoint is whole: train again", run.checkpoint)


def test_a_step_without_checkpoint(run):
    refused(r"run: no checkpoint at step 7; there are 0, 1, 2, 3, 4$", sublayer.load, run.path, step=7)
    shutil.rmtree(run.path / "checkpoints")
    assert run.checkpoint() is None
    refused("no checkpoint yet; sublayer resume .*run goes on", sublayer.load, run.path)
    refused("no checkpoint at step 3; there are none", run.checkpoint, 3)


def test_without_any_checkpoint_it_begins_again(run, trained):
    shutil.rmtree(run.path / "checkpoints")
    sublayer.resume(run.path, quiet=True)
    assert tiny.files(run.path) == tiny.files(trained.path)


def test_weights_of_another_model(run, trained, tmp_path, book):
    other = tiny.train(book, tmp_path / "other", "transformer-xl", dim=8)
    shutil.rmtree(run.checkpoints[-1].path)
    shutil.copytree(other.checkpoints[-1].path, run.path / "checkpoints" / "00000004")
    refused("00000004: its weights are not those of the model .* use the version", sublayer.resume, run.path)


# What was asked


def test_no_run(tmp_path, run):
    for call in (sublayer.resume, sublayer.load, Run.open):
        refused("nowhere: there is no such folder, expected a run; sublayer runs lists", call, tmp_path / "nowhere")
        refused(r"checkpoints: not a run, it has no run\.json; give the folder", call, run.path / "checkpoints")


@pytest.mark.parametrize(
    ("key", "value"), [("model", {"kind": "decoder"}), ("train", None), ("text", "0"), ("sha256", "0"), ("format", 2)]
)
def test_an_edited_request(run, key, value):
    edit(run, **{key: value})
    for call in (sublayer.resume, sublayer.load):
        refused(r"run\.json: .*damaged or edited", call, run.path)


def edit(run, **values):
    file = run.path / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_an_edited_rate_is_refused_with_the_way_to_change(run):
    asked = run.asked["train"]
    edit(run, train={**asked, "lr": 5})
    refused(
        r"checksum does not match.*sublayer resume .*run train\.steps=…; by hand, only data can$", Run.open, run.path
    )


def test_the_text_may_move(run, trained, tmp_path, book):
    moved = shutil.copy(book, tmp_path / "moved.txt")
    data = run.asked["data"]
    edit(run, data={**data, "source": {**data["source"], "path": str(moved)}})
    sublayer.resume(run.path, step=2, quiet=True)
    here, there = tiny.files(run.path), tiny.files(trained.path)
    assert here.pop("run.json") != there.pop("run.json")
    assert here == there


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"format": 1}', "\udcff"])
@pytest.mark.parametrize("name", ["run.json", "environment.json", "tokenizer.json"])
def test_damaged_files(run, name, text):
    (run.path / name).write_bytes(text.encode(errors="surrogateescape"))
    if name == "environment.json" and text == '{"format": 1}':
        sublayer.resume(run.path, quiet=True)  # says nothing that matters
    else:
        refused(f"{name}: ", sublayer.resume, run.path)


@pytest.mark.parametrize("name", ["environment.json", "tokenizer.json"])
def test_missing_files(run, name):
    (run.path / name).unlink()
    refused(f"{name}: ", sublayer.resume, run.path)


def test_cut_metrics(run):
    (run.path / "metrics.jsonl").write_bytes(b"")
    refused(r"metrics\.jsonl: 0 bytes, but a checkpoint was written after \d+", sublayer.resume, run.path)


def test_an_unfinished_clock(run):
    before = len(list(run.clock))
    with open(run.clock.path, "ab") as file:
        file.write(b'{"st')
    sublayer.resume(run.path, {"train.steps": 5}, quiet=True)
    assert len(list(run.clock)) > before


# Beginning


def create(path):
    return Run.create(path, {"model": {}, "data": {}, "text": "", "train": {}}, {}, Byte.Config().fit([]))


def test_a_run_is_never_written_over(tmp_path, run):
    refused(r"there is a run already; go on with sublayer resume .*run, or choose", create, run.path)
    (tmp_path / "file").touch()
    refused("a file is there; choose another folder", create, tmp_path / "file")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.md").touch()
    refused(r"holds other files \(notes\.md, …\); choose an empty or new one", create, tmp_path / "mine")


def test_checkpoints_of_another_run_are_not_taken_over(run):
    for name in ("run.json", "metrics.jsonl", "clock.jsonl"):
        (run.path / name).unlink()
    refused("holds other files", create, run.path)


def test_what_a_killed_beginning_leaves_is_ours(tmp_path):
    create(tmp_path / "warm")
    out = tmp_path / "run"
    events = live(lambda: create(out), tmp_path).events
    assert events > 10
    for event in range(1, events + 1):
        out = tmp_path / str(event)
        assert live(lambda out=out: create(out), tmp_path, event=event) is None
        made = Run.open(out) if (out / "run.json").exists() else create(out)
        assert made.asked["text"] == ""
        with made.held():
            assert sorted(path.name for path in out.iterdir()) == [
                ".lock", "environment.json", "run.json", "tokenizer.json"
            ]  # fmt: skip


# Two at once


def test_one_process_at_a_time(run):
    with run.held():
        said = "run: another process is training this run; wait for it, or stop it$"
        asked = (run.path / "run.json").read_bytes()
        refused(said, sublayer.resume, run.path)
        refused(said, sublayer.resume, run.path, {"train.steps": 9})
        assert (run.path / "run.json").read_bytes() == asked
        assert sublayer.load(run.path).generate("line", tokens=2)
    empty = Run(run.path.parent / "empty")
    with empty.held():
        refused(said.replace("run:", "empty:"), create, empty.path)
    assert create(empty.path)


def test_the_lock_of_a_killed_process_is_free(run):
    def hold():
        with run.held():
            os.kill(os.getpid(), 9)

    assert live(hold, run.path) is None
    with run.held():
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    refused(r"file/run: cannot be written: .*; choose a folder that can be", create, tmp_path / "file" / "run")


# Listing


def test_runs_are_found_up_to_two_folders_deep(trained, tmp_path):
    for place in ("a", "b/c", "b/d", "e/f/g"):
        shutil.copytree(trained.path, tmp_path / place)
    assert [run.path.relative_to(tmp_path).as_posix() for run in find(tmp_path)] == ["a", "b/c", "b/d"]
    assert [run.path for run in find(tmp_path / "a")] == [tmp_path / "a"]
    refused("nowhere: there is no such folder; give the one that holds your runs", find, tmp_path / "nowhere")


def test_what_bits_depend_on_is_recorded(trained):
    recorded = trained.environment
    assert recorded["torch"]
    assert recorded["processor"]
    assert recorded["threads"] >= 1
    here = environment()
    assert differences(here, here) == []
    assert differences({**here, "torch": "1.0"}, here) == [f"torch was 1.0, is {here['torch']}"]


def test_another_machine_is_warned_about(run, caplog):
    file = run.path / "environment.json"
    file.write_text(json.dumps({**run.environment, "processor": "abacus"}))
    sublayer.resume(run.path, {"train.steps": 5}, quiet=True)
    assert re.search("results may differ in the last bits: processor was abacus, is ", caplog.text)
