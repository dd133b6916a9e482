"""Ctrl-C and SIGTERM: what is saved and how to go on, exit codes, and a second signal."""

import os
import re
import signal
import subprocess
import sys

import pytest

from sublayer.cli import main, stopping
from sublayer.cli.stopping import StopSignal
from sublayer.training.trainee import Trainee
from tests.cli.test_train import SMALL


@pytest.fixture(autouse=True)
def here(book, tmp_path, monkeypatch):
    (tmp_path / "book.txt").write_text(book.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def stop(capsys):
    """`stop("train", …)` → what it printed on stderr after a signal, and its exit code."""

    def stop(*words):
        capsys.readouterr()
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(SystemExit) as end:
            main(list(words))
        assert signal.getsignal(signal.SIGINT) is before
        return capsys.readouterr().err, end.value.code

    return stop


def at_checkpoint(step, number):
    """A Trainee.save that a signal interrupts."""

    def save(self, run, world, done=Trainee.save):
        done(self, run, world)
        if self.progress.step == step:
            os.kill(os.getpid(), number)

    return save


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_train(stop, monkeypatch, number, code):
    monkeypatch.setattr(Trainee, "save", at_checkpoint(2, number))
    words = ("train", "gpt2", "--data", "book.txt", "--out", "runs/a b", *SMALL, "train.steps=9", "train.save_every=2")
    said, ended = stop(*words)
    assert said == "stopped at step 2; saved at step 2 in runs/a b. Continue: sublayer resume 'runs/a b'\n"
    assert ended == code
    monkeypatch.undo()


def test_before_anything_is_saved(stop, monkeypatch):
    monkeypatch.setattr("sublayer.train", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    said, ended = stop("train", "gpt2", "--data", "book.txt", "layout=(sf)x2")
    assert said == (
        "stopped; nothing is saved yet. Continue by the same command: sublayer train gpt2 --data book.txt "
        "'layout=(sf)x2'\n"
    )
    assert ended == 130


@pytest.mark.parametrize("verb", ["search", "compare", "supernet", "proxies", "reproduce"])
def test_verbs_that_continue_by_the_same_command(stop, monkeypatch, verb):
    monkeypatch.setattr(f"sublayer.{verb}", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    said, ended = stop(verb, "gpt2")
    assert said == f"stopped; nothing is saved yet. Continue by the same command: sublayer {verb} gpt2\n"
    assert ended == 130


@pytest.mark.parametrize("lengths", [False, True])
def test_a_comparison_names_its_folder(stop, monkeypatch, lengths):
    monkeypatch.setattr(Trainee, "save", at_checkpoint(2, signal.SIGINT))
    words = ("compare", "gpt2", "llama", "--data", "book.txt", "--out", "both", "--steps", "2", "--seeds", "1", *SMALL)
    words = (*(word for word in words if "train.length" not in word), "--lengths", "8,16") if lengths else words
    said, ended = stop(*words)
    kept = r"stopped; trainings and figures so far are saved in both\. "
    assert re.fullmatch(rf"{kept}Continue by the same command: sublayer compare gpt2 llama .*\n", said)
    assert ended == 130


def test_other_verbs_just_stop(stop, monkeypatch):
    monkeypatch.setattr("sublayer.describe", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    assert stop("show", "gpt2") == ("stopped\n", 130)


@pytest.mark.parametrize(("verb", "said"), [("search", "stopped; nothing is saved yet. "), ("describe", "stopped\n")])
def test_a_signal_that_shows_as_another_exception(stop, monkeypatch, verb, said):
    """pydantic wraps what is raised while it writes a config."""

    def interrupted(*_, **__):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("Error calling function: StopSignal: SIGINT") from None

    monkeypatch.setattr(f"sublayer.{verb}", interrupted)
    printed, ended = stop("show" if verb == "describe" else verb, "gpt2")
    assert printed.startswith(said)
    assert ended == 130


def test_an_error_without_a_signal_is_not_a_stop():
    with pytest.raises(ValueError, match="wrong"), stopping.stopped_by_signals(), stopping.when_stopped(lambda: ""):
        raise ValueError("wrong")


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stopping.stopped_by_signals():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_first_signal_raises_and_the_second_ends_the_process():
    ignoring = """
import os, signal
from sublayer.cli import stopping
signal.signal(signal.SIGINT, signal.default_int_handler)
with stopping.stopped_by_signals():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt as error:
        print(error, flush=True)
        os.kill(os.getpid(), signal.SIGINT)
        print("not reached", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", ignoring], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("SIGINT\n", "", 130)


def test_exit_codes():
    assert stopping.exit_code(KeyboardInterrupt()) == 130
    assert stopping.exit_code(StopSignal(signal.SIGTERM)) == 143
