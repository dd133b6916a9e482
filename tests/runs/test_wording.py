"""What is told to people: one of a thing is not several, and what looks like a command is one."""

import shlex
from types import SimpleNamespace

import pytest

from sublayer.cli.front import _next
from sublayer.cli.words import read_overrides, read_seeds
from sublayer.runs import Run
from sublayer.runs.wording import change, command, plural, seeds


def test_counts_and_their_nouns():
    assert [plural(n, "thread") for n in (0, 1, 2, 1000)] == ["0 threads", "1 thread", "2 threads", "1,000 threads"]
    assert [plural(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


@pytest.mark.parametrize("value", ["runs/book", "runs/my book", "layout=(sf)x6 (f)x2", "it's", "$HOME", "a;b", "~2"])
def test_a_command_reads_back_as_it_was_meant(value):
    assert shlex.split(command("resume", value)) == ["sublayer", "resume", value]


@pytest.mark.parametrize(
    "value", [None, True, 3, 2e-3, "(sf)x3", "adaptive", [1, 2], {"kind": "layer", "layer": 1}], ids=str
)
def test_a_change_reads_back_as_it_was_meant(value):
    assert read_overrides((change("key", value),)) == {"key": value}


@pytest.mark.parametrize("of", [(0,), (0, 1, 2), (5,), (3, 5, 8), (1, 0)], ids=str)
def test_seeds_read_back_as_they_were_meant(of):
    assert read_seeds(seeds(of)) == of


def test_remedies_can_be_pasted(tmp_path):
    folder = tmp_path / "(sf)x6 (f)x2"
    folder.mkdir()
    (folder / "run.json").touch()
    with pytest.raises(ValueError, match="go on with") as refused:
        Run(folder).refuse_taken()
    assert command("resume", folder) in str(refused.value)


def test_the_next_step_can_be_pasted():
    for front in ([SimpleNamespace(run="runs/0003")], []):
        for told in _next(SimpleNamespace(front=front), "my search", "book.txt").split(" · "):
            if told.startswith("sublayer"):
                assert "my search" in shlex.split(told)[2]
