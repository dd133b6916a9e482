"""Whole models, read in processes of their own. What they take in seconds no test can say; what they hold, it can."""

import sys

import pytest
import torch

import sublayer
from sublayer.measurement import Memory, Reading, Setting, Worker, measure, passes
from sublayer.measurement.allocations import allocated
from sublayer.nn.config import ConfigError

SMALL = {"s.heads": 2, "f.inner": 128}


def small(name="gpt2", **fields):
    return sublayer.config(name, SMALL, **{"dim": 64, "layout": "(sf)x2", "vocab": 256, **fields})


@pytest.fixture(scope="module")
def worker():
    with Worker(Setting(threads=1)) as worker:
        yield worker


def test_weights_are_the_parameters(worker):
    config = small(position="rotary")
    reading = worker.read(config, seconds=0.01)
    assert reading.parts.weights == 4 * config.cost().params
    assert reading.memory == reading.parts.weights + reading.parts.state + reading.parts.peak
    assert 0 < reading.low <= reading.latency <= reading.high
    assert reading.high_water is None


def test_a_memory_is_carried_state(worker):
    config = sublayer.config(
        "transformer-xl-24", {"s.heads": 2, "s.memory.length": 100}, dim=64, layout="(sf)x2", vocab=256
    )
    with_memory, without = worker.read(config, seconds=0.01), worker.read(config, memory=0, seconds=0.01)
    state = 2 * 100 * 64 * 4  # of two attentions the hidden states
    assert state <= with_memory.parts.state - without.parts.state <= state + 4096


@pytest.mark.parametrize("name", ["gpt2", "transformer-xl-24", "llama"])
@pytest.mark.parametrize("task", ["segment", "prefill", "token"])
def test_every_task_can_be_run_again_and_again(name, task):
    config = small(name)
    setting = Setting(task=task, length=16, threads=1)
    with torch.inference_mode():
        made = passes.make(passes.build(config, "cpu"), setting)
        made.run()
        for _ in range(40):
            made.prepare()
            made.run()


def test_a_high_water_mark_agrees_with_what_was_counted():
    config = sublayer.config("llama", {"s.heads": 8}, dim=512, layout="(sf)x8", vocab=2000)
    (reading,) = measure([config], Setting(length=64, threads=1), seconds=0.1, tolerance=1.0)
    assert reading.memory > 50e6
    if sys.platform == "linux":
        assert reading.high_water is not None
        assert abs(reading.high_water / reading.memory - 1) < 0.1


def test_allocations_are_counted_to_the_byte():
    kept = []

    def run():
        kept.append(torch.empty(1000))
        torch.empty(5000)

    found = allocated(run)
    assert (found.kept, found.peak) == (4000, 24_000)


def test_what_cannot_be_measured_is_said_before_it_is_tried(worker):
    with pytest.raises(ConfigError, match="has 1024 positions"):
        worker.read(small(), memory=2000)
    with pytest.raises(ConfigError, match="do not continue a text"):
        worker.read(sublayer.config("bert-base"))
    with pytest.raises(ConfigError, match="GiB"):
        worker.read(sublayer.config("llama", dim=65536, layout="(sf)x100"))


def test_a_process_that_dies_is_told_in_a_line():
    with Worker(Setting(threads=1)) as worker:
        worker._process.kill()
        with pytest.raises(ValueError, match=r"the process that measures died, at last by SIGKILL.*smaller model"):
            worker.read(small())


def test_a_median_that_says_nothing_is_told_in_a_line():
    parts, device = Memory(1, 1, 1, 1), {}
    assert Reading(1e-3, 0.9e-3, 1.1e-3, 9, 1.0, parts, device).noise is None
    told = Reading(1e-3, 0.5e-3, 2e-3, 9, 1.0, parts, device).noise
    assert told is not None
    assert "too noisy to measure: 9 readings of 1 ms leave the median open by ±75 %; stop other programs" in told
