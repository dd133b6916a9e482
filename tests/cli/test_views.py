"""What search, compare and proxies show while they work."""

from pathlib import Path

import pytest

from sublayer.cli.comparing import ComparisonView
from sublayer.cli.front import CANDIDATES, SearchView
from sublayer.cli.proxies import _view
from sublayer.nas.reporters import SearchProgress
from sublayer.progress import Display
from sublayer.progress import display as module


@pytest.fixture
def display(monkeypatch):
    monkeypatch.setattr(module, "TICK", 1e6)
    with Display("starting") as display:
        yield display


def shown(display):
    return display.phase, display.count, display.status


def test_the_phases_of_a_search(display):
    view, progress = SearchView(display), SearchProgress(4, ())
    view.phase("measuring sublayers", 3, 20)
    assert shown(display) == ("measuring sublayers", "3 of 20", "")
    progress.trials.append(None)
    view.progress(progress)
    assert shown(display) == (CANDIDATES, "1 of 4", "generation 0")
    view.phase("measuring sublayers", 1, 2)  # of the next generation
    assert shown(display) == (CANDIDATES, "1 of 4", "measuring sublayers: 1 of 2")
    progress.trials += [None] * 3
    view.progress(progress)
    view.timed_phase("measuring 9 models of the front in turn", 27.0)
    view.activity("waiting")
    assert shown(display) == ("measuring 9 models of the front in turn", "", "waiting")
    view.trainings([Path("nowhere/0003")])
    assert shown(display) == ("training", "", "0 of 1 run done")


def test_recalled_candidates_do_not_count_for_the_time_left(display):
    display.clock = lambda: 0.0
    view, progress = SearchView(display), SearchProgress(100, ())
    for _ in range(50):
        progress.trials.append(None)
        progress.recalled += 1
        view.progress(progress)
    display.clock = lambda: 10.0
    progress.trials.append(None)
    view.progress(progress)
    assert display.left == pytest.approx(490)


def test_the_phases_of_a_comparison(display):
    view = ComparisonView(display)
    view.phase("measuring the models", 1, 2)
    assert shown(display) == ("measuring the models", "1 of 2", "")


def test_the_phases_of_a_study(display, tmp_path):
    view = _view(display, tmp_path)
    view.begin("scores", 3)
    view.done(0)
    view.done(1)
    assert shown(display) == ("scores", "2 of 3", "")
    view.begin("trainings", 3)
    view.done(0)  # known by its files
    assert shown(display) == ("training", "", "0 of 3 runs done")
