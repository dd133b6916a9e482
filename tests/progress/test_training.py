"""What a training shows, by a clock that the test moves."""

import json
from datetime import UTC, datetime

import pytest

from sublayer.progress import Display
from sublayer.progress import display as module
from sublayer.progress.training import JsonLines, TrainingView
from sublayer.runs import Progress
from sublayer.runs.metrics import TrainLine, ValidLine

HOURS = (
    "this training will take about 16 h 39 min more; Ctrl-C stops it, and sublayer resume goes on. A smaller model, "
    "train.steps, train.batch or train.length takes less"
)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(module, "TICK", 1e6)
    return Clock()


def take_steps(view, clock, count, total, seconds):
    for step in range(1, count + 1):
        clock.now += seconds
        view.step(Progress(step=step, tokens=64 * step), step / total)


@pytest.mark.parametrize(
    ("seconds", "lines"),
    [
        (0.001, []),
        (1.0, ["… training: step 4 of 1,000, 64 tokens/s, about 16 min 36 s left"]),
        (
            60.0,
            [HOURS],
        ),
    ],
    ids=["short", "long", "hours"],
)
def test_after_the_first_steps_the_whole_is_estimated_once(clock, capsys, seconds, lines):
    with Display("starting", clock=clock) as display:
        view = TrainingView(display)
        view.start("a title", 1000, 0, 0.0)
        take_steps(view, clock, 6, 1000, seconds)
    assert view.reached == 6
    assert capsys.readouterr() == ("", "".join(line + "\n" for line in lines))


def test_the_stage_is_shown(clock, capsys):
    with Display("starting", clock=clock) as display:
        view = TrainingView(display)
        view.start("a title", 1000, 0, 0.0)
        view.stage(2, 3, "length 64")
        take_steps(view, clock, 4, 1000, 1.0)
    assert capsys.readouterr().err == "… training: stage 2 of 3, step 4 of 1,000, 64 tokens/s, about 16 min 36 s left\n"


def test_lines_of_json_have_the_time_and_tokens_per_second(capsys):
    reporter = JsonLines()
    reporter.start("a title", None, 1000, 50.0)
    reporter.line(TrainLine(3, 3000, 0.1, {"loss": 2.0}, 1.0), 52.0)
    reporter.line(ValidLine(3, 3000, {"loss": 2.5}, 4), 59.0)  # an evaluation does not slow training down
    reporter.line(TrainLine(5, 5000, 0.1, {"loss": 1.0}, 1.0), 63.0)
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line in shown:
        assert abs(datetime.now(UTC) - datetime.fromisoformat(line.pop("time"))).total_seconds() < 3600
    assert shown == [
        {"step": 3, "tokens": 3000, "rate": 0.1, "loss": 2.0, "norm": 1.0, "tokens_per_second": 1000.0},
        {"step": 3, "tokens": 3000, "valid_loss": 2.5, "valid_batches": 4},
        {"step": 5, "tokens": 5000, "rate": 0.1, "loss": 1.0, "norm": 1.0, "tokens_per_second": 500.0},
    ]
