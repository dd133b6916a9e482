"""What a training says while it runs."""

import json
import sys

import pytest

import sublayer
from sublayer.training import reporters
from tests.training import tiny


def speak(book, out, quiet=False, **more):
    changes = tiny.changes(train__steps=2, train__eval_every=2, train__log_every=1, **more)
    return sublayer.train("gpt2", str(book), out, changes, quiet=quiet)


def test_lines_of_json_to_programs(book, tmp_path, capsys):
    run = speak(book, tmp_path / "run")
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [{name: line[name] for name in stored} for line, stored in zip(shown, run.metrics, strict=True)] == list(
        run.metrics
    )
    assert all(line["time"].endswith("+00:00") for line in shown)
    assert [line["tokens_per_second"] > 0 for line in shown[1:2]] == [True]
    assert all(line["time"].endswith("+00:00") for line in run.clock)


def test_a_bar_on_the_terminal_while_stdout_is_a_file(book, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run = speak(book, tmp_path / "run")
    shown = capsys.readouterr()
    assert [json.loads(line)["step"] for line in shown.out.splitlines()] == [line["step"] for line in run.metrics]
    assert "0.02 M parameters" in shown.err


def test_nothing_when_quiet(book, tmp_path, capsys):
    speak(book, tmp_path / "run", quiet=True)
    assert capsys.readouterr() == ("", "")


def test_a_bar_to_people(book, tmp_path, capsys, monkeypatch):
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    run = speak(book, tmp_path / "run")
    shown = capsys.readouterr()
    said = " ".join(shown.err.split())
    assert shown.out == ""
    assert f"{run.path}: 0.02 M parameters on 1,990 tokens of " in said
    (loss,) = tiny.losses(run, "valid_loss")
    assert f"step 2 valid: loss {loss:.4g}, perplexity" in said


def test_tensorboard(book, tmp_path, monkeypatch):
    written = []

    class Writer:
        def __init__(self, folder):
            assert folder == str(tmp_path / "run" / "tensorboard")

        def add_scalar(self, name, value, step):
            written.append((name, value, step))

        def close(self):
            written.append("closed")

    monkeypatch.setattr(reporters.TensorBoard, "kind", staticmethod(lambda: Writer))
    run = speak(book, tmp_path / "run", quiet=True, train__tensorboard=True)
    told = [(name, value, line["step"]) for line in run.metrics for name, value in line.items()]
    assert written == [one for one in told if one[0] not in ("step", "tokens")] + ["closed"]


def test_tensorboard_that_is_not_there_is_missed_before_there_is_a_run(book, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"train\.tensorboard: needs TensorBoard; pip install 'sublayer\[track\]'"):
        speak(book, tmp_path / "run", train__tensorboard=True)
    assert not (tmp_path / "run").exists()
