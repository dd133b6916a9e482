"""What is shown of work in a log and on a terminal, by a clock that the test moves."""

import io
import logging
import sys

import pytest

from sublayer.progress import Display
from sublayer.progress import display as module


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The display's own thread does nothing: the test calls `tick`."""
    monkeypatch.setattr(module, "FIRST", 2.0)
    monkeypatch.setattr(module, "TICK", 1e6)
    return Clock()


def lines(capsys):
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


def test_work_shorter_than_two_seconds_is_silent(clock, capsys):
    with Display("measuring", 3, clock=clock) as display:
        clock.now += 1.9
        display.update(1)
        display.tick()
    assert lines(capsys) == []


def test_a_line_after_two_seconds_and_then_at_least_every_ten(clock, capsys):
    with Display("measuring", 40, clock=clock) as display:
        printed = []
        for second in range(1, 31):
            clock.now += 1
            display.update(second)
            display.tick()
            printed += [second] * len(lines(capsys))
    assert printed == [2, 10, 18, 26]


def test_a_line_has_the_count_the_status_and_the_time_left(clock, capsys):
    with Display("measuring", 10, clock=clock) as display:
        clock.now += 5
        display.tick()
        display.update(1)
        clock.now += 20
        display.update(3, status="gpt2")
        display.tick()
    assert lines(capsys) == [
        "… measuring: 0 of 10, 5 s so far",
        "… measuring: 3 of 10, gpt2, about 1 min 10 s left",
    ]


def test_a_new_phase_has_a_time_of_its_own(clock, capsys):
    with Display("starting", clock=clock) as display:
        clock.now += 30
        display.reach("drawing", 5, 10)
        clock.now += 4
        display.reach("drawing", 7, 10)
        display.tick()
    assert lines(capsys) == ["… drawing: 7 of 10, about 6 s left"]


def test_a_phase_of_known_length_counts_down(clock, capsys):
    with Display("starting", clock=clock) as display:
        display.begin_timed("measuring 3 models", 9.0)
        clock.now += 3
        display.tick()
        clock.now += 8
        display.tick()
    assert lines(capsys) == ["… measuring 3 models: about 6 s left", "… measuring 3 models: 11 s so far"]


def test_quiet_shows_nothing(clock, capsys):
    with Display("measuring", 10, clock=clock, quiet=True) as display:
        clock.now += 100
        display.tick()
        display.print("a line")
    assert lines(capsys) == []


def test_what_is_watched_is_looked_at_until_the_next_phase(clock):
    looked = []
    with Display("training", 2, clock=clock) as display:
        display.watch(lambda: looked.append(display.phase))
        display.tick()
        display.begin("measuring")
        display.tick()
    assert looked == ["training"]


def test_messages_of_the_data_room_are_phases(clock, capsys):
    log = logging.getLogger("sublayer.data.tokens")
    with Display("starting", clock=clock) as display:
        log.info("tokenising %s", "book.txt", extra={"done": 0, "total": 100})
        clock.now += 10
        log.info("tokenising %s", "book.txt", extra={"done": 20, "total": 100})
        display.tick()
    assert lines(capsys) == ["… tokenising book.txt: about 40 s left"]
    log.info("reading")
    assert display.phase == "tokenising book.txt"
    assert not log.isEnabledFor(logging.INFO)


def test_a_bar_on_a_terminal(clock, monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with Display("measuring", 10, clock=clock) as display:
        display.update(1)
        clock.now += 20
        display.update(3, status="gpt2")
        display.below = "the front"
        display.print("a result")
        display._bar.refresh()
    shown = screen.getvalue()
    assert "3 of 10 · gpt2 · about 1 min 10 s left" in shown
    assert "a result" in shown
    assert "the front" in shown
