"""One process measures at a time: a second one waits and says so, a killed one holds nobody up."""

import subprocess
import sys
import threading

import pytest

from sublayer.measurement import Setting, Worker, lock
from tests.measurement.plain import reading as plain_reading
from tests.measurement.test_measure import small

HOLDS = """
from sublayer.measurement.lock import measuring_lock
with measuring_lock():
    print('held', flush=True)
    input()
"""
READ = {"readings": [plain_reading().dump()]}


class Silent:
    """A process that measures nothing, but says whether it was asked."""

    def __init__(self, *_):
        self.asked = threading.Event()

    def ask(self, function, task):
        self.asked.set()
        return {"result": READ}

    def kill(self): ...

    def bury(self): ...


@pytest.fixture
def other(tmp_path, monkeypatch):
    """Another process, whose measuring_lock it is."""
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path))
    monkeypatch.setattr(lock, "PATIENCE", 0.0)
    monkeypatch.setattr("sublayer.measurement.worker.Process", Silent)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDS], **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_second_one_waits_and_says_so_and_a_killed_one_frees(other, caplog):
    told = threading.Event()
    caplog.handler.addFilter(lambda record: told.set() or True)
    with Worker(Setting(threads=1, length=8)) as one, Worker(Setting(threads=1, length=16)) as two:
        workers = [one, two]
        reading = [threading.Thread(target=worker.read, args=(small(),), daemon=True) for worker in workers]
        for thread in reading:
            thread.start()
        assert told.wait(60)
        assert not any("_process" in vars(worker) for worker in workers)  # not even started
        other.kill()
        for thread in reading:
            thread.join(60)
        assert all(worker._process.asked.is_set() for worker in workers)
    assert "another process is measuring on this machine" in caplog.text


def test_who_has_it_may_ask_again(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path))
    with lock.measuring_lock(), lock.measuring_lock():
        pass
    with lock.measuring_lock():
        pass


def test_a_cache_that_cannot_be_written_stops_nobody(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "file"))
    with lock.measuring_lock():
        pass
