"""Pools: every task once, wherever it is done; deaths cost time, errors come as they are."""

import logging
import os
import select
import subprocess
import sys

import pytest

from sublayer import executors
from sublayer.executors.processes import Processes
from tests.executors import tasks


@pytest.fixture(scope="module")
def two():
    """Two processes for all tests here; those whose tasks fail have pools of their own."""
    with executors.pool(workers=2) as pool:
        yield pool


def test_one_worker_is_this_process_and_keeps_order():
    with executors.pool() as pool:
        assert list(pool.run(tasks.double, range(5))) == [(n, 2 * n) for n in range(5)]
        assert next(iter(pool.run(tasks.where, [None])))[1]["pid"] == os.getpid()


def test_every_task_is_done_once_in_two_processes(two):
    assert sorted(two.run(tasks.double, range(40))) == [(n, 2 * n) for n in range(40)]
    places = [result for _, result in two.run(tasks.where, range(20))]
    assert len({place["pid"] for place in places}) in (1, 2)
    assert os.getpid() not in {place["pid"] for place in places}
    assert {int(place["threads"]) for place in places} == {int(os.environ.get("OMP_NUM_THREADS", 1))}
    assert list(two.run(tasks.double, [])) == []


def test_warnings_are_passed_on_and_prints_do_no_harm(two, caplog, capfd):
    with caplog.at_level(logging.WARNING):
        assert sorted(two.run(tasks.warn, range(3))) == [(0, 0), (1, 1), (2, 2)]
    assert sorted(record.getMessage() for record in caplog.records) == [f"careful with {n}" for n in range(3)]
    assert capfd.readouterr() == ("", "")


def test_a_process_that_dies_is_replaced_and_its_task_done_again(two, tmp_path):
    asked = [{"folder": str(tmp_path), "number": number} for number in range(2)]
    assert sorted(two.run(tasks.die_once, asked)) == [(0, 0), (1, 1)]
    assert sorted(two.run(tasks.double, range(3))) == [(0, 0), (1, 2), (2, 4)]


def test_a_task_that_always_kills_its_process_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr("sublayer.executors.processes.TRIES", 2)
    with Processes(2) as pool, pytest.raises(ValueError, match=r"died 2 times, at last by SIGKILL; fewer workers"):
        list(pool.run(tasks.die, [1]))


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_come_as_they_are(workers):
    with executors.pool(workers=workers) as pool, pytest.raises(ValueError, match=r"^number=2: is two; use another$"):
        list(pool.run(tasks.refuse, range(4)))
    with (
        executors.pool(workers=workers) as pool,
        pytest.raises((RuntimeError, ZeroDivisionError), match="division by zero"),
    ):
        list(pool.run(tasks.divide, [1, 0]))


def test_what_cannot_be_imported_elsewhere_is_refused(two):
    with pytest.raises(ValueError, match="other processes cannot import it"):
        list(two.run(lambda task: task, [1]))
    with pytest.raises(ValueError, match="workers=0: at least 1"):
        executors.pool(workers=0)


def test_a_plug_in_that_is_missing_there_is_refused():
    with executors.pool(workers=2, plugins=["no_such_parts"]) as pool, pytest.raises(ValueError, match="no_such_parts"):
        list(pool.run(tasks.double, [1]))


KILLED = """
import os, signal
from sublayer import executors
from tests.executors import tasks
with executors.pool(workers=2) as pool:
    pids = {result["pid"] for _, result in pool.run(tasks.where, range(4))}
    print(*pids, flush=True)
    next(iter(pool.run(tasks.wait, [None, None])))
"""


def test_processes_end_with_the_one_that_asks():
    asking = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert asking.stdout is not None
    with asking:
        pids = [int(pid) for pid in asking.stdout.readline().split()]
        ends = [os.pidfd_open(pid) for pid in pids]
        asking.kill()
    for end in ends:
        assert select.select([end], [], [], 20)[0] == [end]
        os.close(end)
