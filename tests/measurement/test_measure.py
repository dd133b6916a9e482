"""Whole models, read in processes of their own. What they take in seconds no test can say; what they hold, it can."""

import sys

import pytest
import torch

import sublayer
from sublayer.measurement import Race, Setting, Worker, measure, need, passes
from sublayer.measurement.allocations import allocated
from sublayer.nn.config import ConfigError
from tests.measurement.plain import reading

SMALL = {"s.heads": 2, "f.inner": 128}


def small(name="gpt2", **fields):
    return sublayer.config(name, SMALL, **{"dim": 64, "layout": "(sf)x2", "vocab": 256, **fields})


@pytest.fixture(scope="module")
def worker():
    with Worker(Setting(threads=1)) as worker:
        yield worker


def test_weights_are_the_parameters(worker):
    config = small(position="rotary")
    read = worker.read(config, seconds=0.01)
    assert read.parts.weights == 4 * config.cost().params
    assert read.memory == read.parts.weights + read.parts.state + read.parts.peak
    assert 0 < read.low <= read.latency <= read.high
    assert read.high_water is None


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
    (read,) = measure([config], Setting(length=64, threads=1), seconds=0.1, tolerance=1.0)
    assert read.memory > 50e6
    if sys.platform == "linux":
        assert read.high_water is not None
        assert abs(read.high_water / read.memory - 1) < 0.1


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


def test_a_race_has_a_reading_for_each_model_and_their_ratios(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path))
    with Worker(Setting(threads=1, length=16)) as worker:
        found = worker.race([small(), small(layout="(sf)x4")], seconds=0.01, tolerance=1.0)
    first, second = found.readings
    assert second.parts.weights > first.parts.weights
    assert {len(rounds) for rounds in found.rounds} == {5}
    one, other = found.ratios
    assert (one.value, one.low, one.high) == (1.0, 1.0, 1.0)
    assert other.low <= other.value == second.latency / first.latency <= other.high
    assert first.conditions.repeats >= 5
    assert first.conditions.threads == 1
    assert sum(first.shares) == pytest.approx(1.0)
    assert (tmp_path / "measurement" / f"{first.device['id']}-pace.json").exists()


def test_ratios_come_from_whole_rounds():
    """A slow round slows all models: their ratio stays."""
    times = [1.0, 3.0, 1.0, 2.0, 1.0, 5.0, 1.0]
    race = Race([reading(1e-3), reading(2e-3)], [times, [2 * time for time in times]])
    assert (race.ratios[1].value, race.ratios[1].low, race.ratios[1].high) == (2.0, 2.0, 2.0)
    few = Race([reading(1e-3), reading(2e-3, low=1e-3, high=3e-3)], [[None] * 5, times[:5]])
    assert (few.ratios[1].low, few.ratios[1].high) == (1.0, 3.0)


def test_models_that_do_not_fit_together_are_refused(monkeypatch):
    config = small()
    monkeypatch.setattr(need, "machine_memory", lambda: 3 * 4 * config.cost().params)
    with Worker(Setting(threads=1, length=8)) as worker, pytest.raises(ConfigError, match="measure fewer at a time"):
        worker.race([config] * 4)
