"""A device new to the cache shows its pace in several processes, and short passes are measured in several."""

import pytest

from sublayer.measurement import Setting, calibration, whole_models
from sublayer.measurement.device import fingerprint
from sublayer.measurement.quiet_pace import PaceFile
from sublayer.measurement.whole_models import PROCESSES, middle
from tests.measurement.plain import reading

SETTING = Setting(threads=1)


@pytest.fixture
def shows(monkeypatch):
    """Give the paces that the next processes show; returns the list of those that are left."""

    def begin(*paces, busy=None):
        left = list(paces)

        class Shows:
            def __init__(self, threads, plugins):
                pass

            def ask(self, function, task):
                pace = left.pop(0)
                if pace is None:
                    return None
                return {"result": {"pace": dict.fromkeys(("products", "stream", "overhead"), pace), "busy": busy}}

            def kill(self):
                pass

            def bury(self):
                pass

        monkeypatch.setattr(calibration, "Process", Shows)
        return left

    return begin


def known(folder):
    return PaceFile(fingerprint("cpu", 1)["id"], folder).quiet()


@pytest.mark.parametrize(
    ("paces", "left"),
    [
        ([1.0] * 12, 12 - calibration.ENOUGH),
        ([1.0, 1.6, 1.6, 1.6, 1.02, 1.01, 1.0, 9.9], 1),  # until the faster half agrees
        ([1.2**n for n in range(12)], 12 - calibration.MOST),
        ([None, 1.0], 1),  # a process that died
    ],
)
def test_processes_show_the_pace_until_enough_agree(shows, tmp_path, paces, left):
    there = shows(*paces)
    calibration.calibrate(SETTING, tmp_path)
    assert len(there) == left
    if left != 1 or paces[0]:
        assert known(tmp_path).pace.products < 1.2


def test_a_known_device_is_not_asked_again(shows, tmp_path):
    shows(*[1.0] * calibration.ENOUGH)
    calibration.calibrate(SETTING, tmp_path)
    there = shows(1.0)
    calibration.calibrate(SETTING, tmp_path)
    assert there == [1.0]


def test_a_busy_machine_is_not_waited_for(shows, tmp_path):
    there = shows(1.0, 1.0, busy="others work")
    calibration.calibrate(SETTING, tmp_path)
    assert len(there) == 1
    assert known(tmp_path).disturbed == "others work"


def test_a_cache_that_cannot_be_written_is_tried_once(shows, tmp_path):
    (tmp_path / "file").write_text("")
    there = shows(1.0, 1.0)
    calibration.calibrate(SETTING, tmp_path / "file")
    assert len(there) == 1


def test_a_process_shows_its_pace():
    found = calibration.show_pace(SETTING.dump())
    assert all(value > 0 for value in found["pace"].values())


def test_of_several_processes_the_middle_one_counts():
    found = middle([reading(1.3e-3), reading(1.0e-3), reading(1.1e-3)])
    assert (found.latency, found.low, found.high) == (1.1e-3, 1.0e-3, 1.3e-3)
    slow = reading(1e-3, slowdown=2.0)
    assert middle([slow, reading(1.2e-3), reading(1.1e-3)]).latency == 1.1e-3
    assert middle([slow, reading(1.2e-3), slow]).disturbed


@pytest.mark.parametrize(("latency", "times"), [(1e-3, PROCESSES), (5e-3, 1)])
def test_short_passes_are_measured_in_several_processes(monkeypatch, latency, times):
    begun = []

    class Quick:
        def __init__(self, setting, plugins=()):
            self.setting = setting
            begun.append(self)

        def read(self, config, **how):
            return reading(latency)

        def settle(self, read):
            return read

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(whole_models, "Worker", Quick)
    (found,) = whole_models.measure(["a model"], SETTING)
    assert (found.latency, len(begun)) == (latency, times)
