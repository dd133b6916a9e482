"""Progress that crosses from the process that trains to the one that launched it."""

from sublayer.runs import Lines, Progress
from sublayer.runs.metrics import TrainLine, ValidLine
from sublayer.training import relay
from sublayer.training.relay import Relay, repeat
from sublayer.training.reporters import ProgressReporter


class Written(ProgressReporter):
    def __init__(self):
        self.calls = []

    def start(self, *told):
        self.calls.append(("start", *told))

    def stage(self, *told):
        self.calls.append(("stage", *told))

    def step(self, progress, spent):
        self.calls.append(("step", progress.step, progress.tokens, spent))

    def evaluating(self):
        self.calls.append("evaluating")

    def line(self, line, seconds):
        self.calls.append((line, seconds))


def test_everything_is_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(relay, "EVERY", 0.0)
    messages = Lines(tmp_path / "messages.jsonl")
    here, there = Written(), Relay(messages)
    assert messages.since(0) == ([], 0)
    train, valid = TrainLine(2, 64, 0.1, {"loss": 2.0}, 1.0, 2), ValidLine(2, 64, {"loss": 2.5}, 3, 2)
    read = 0
    for reporter in (there, here):
        reporter.start("a title", None, 32, 7.5)
        reporter.stage(2, 3, "length 64")
        reporter.step(Progress(step=2, tokens=64), 0.5)
        reporter.line(train, 8.5)
        reporter.evaluating()
        reporter.line(valid, 9.5)
    expected, here.calls = here.calls, []
    messages.add({"warning": "something else"})
    with open(messages.path, "ab") as file:
        file.write(b'{"title": "not whole')
    lines, read = messages.since(read)
    for line in lines:
        repeat(line, here)
    assert here.calls == expected
    assert len(lines) == 7
    assert messages.since(read) == ([], read)


def test_steps_are_not_relayed_too_often(tmp_path, monkeypatch):
    monkeypatch.setattr(relay.time, "monotonic", iter([100.0, 100.0, 100.2, 100.6, 100.6]).__next__)
    messages = Lines(tmp_path / "messages.jsonl")
    reporter = Relay(messages)
    for step in (1, 2, 3):
        reporter.step(Progress(step=step), 0.1)
    assert [line["step"] for line in messages] == [1, 3]
