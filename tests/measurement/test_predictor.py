"""The table and what is predicted from it, with a device made of formulas in place of the worker."""

import math

import pytest

import sublayer
from sublayer.measurement import Predictor, Setting, table
from sublayer.measurement.reading import Memory, Reading
from sublayer.nas.ranking import spearman
from sublayer.nn.config import ConfigError


class Formula:
    """Reads models by their FLOPs and parameters; counts how often it is asked."""

    asked = 0

    def __init__(self, setting, plugins=()):
        self.setting = setting

    def read(self, config, *, memory, tolerance, seconds):
        Formula.asked += 1
        cost = config.cost(self.setting.length, memory)
        time = 1e-4 + 1e-5 * len(config.stack.parts) + 1e-11 * cost.flops.total
        state = sum(8 * config.dim * 100 for part in config.stack.parts if hasattr(part, "heads"))
        widest = max(part.width(config.dim) if hasattr(part, "width") else config.dim for part in config.stack.parts)
        parts = Memory(4 * cost.params, state, 400 * widest + 64, 64)
        return Reading(time, time, time, 5, 1.0, parts, {})

    def __exit__(self, *_):
        pass


@pytest.fixture(autouse=True)
def formula(monkeypatch):
    Formula.asked = 0
    monkeypatch.setattr(table, "Worker", Formula)


def candidate(dim=256, inner=(512, 1024), heads=(2, 4), **fields):
    layout = f"(sf)x{len(inner)}"
    changes = {"s.heads": list(heads), "f.inner": list(inner)}
    return sublayer.config("llama", changes, dim=dim, layout=layout, vocab=256, **fields)


CANDIDATES = [
    candidate(dim, [dim + 64 * n, 2 * dim, 3 * dim + 64], [2, 4, 8])
    for n, dim in enumerate((128, 192, 256, 320, 448, 576, 704, 1024))
]


def test_predictions_agree_with_whole_models(tmp_path):
    with Predictor(Setting(threads=1), folder=tmp_path) as predictor:
        predictor.learn(CANDIDATES)
        predictor.calibrate(CANDIDATES[::2])
        errors = predictor.check(CANDIDATES[1::2])
    assert errors.median < 0.02
    assert errors.memory < 0.02
    assert spearman(errors.predicted, errors.measured) == 1
    assert errors.span > 5


def test_what_was_measured_is_not_measured_again(tmp_path):
    setting = Setting(threads=1)
    with Predictor(setting, folder=tmp_path) as predictor:
        predictor.learn(CANDIDATES)
        predictor.calibrate(CANDIDATES)
        before = [predictor.predict(config) for config in CANDIDATES]
    asked = Formula.asked
    with Predictor(setting, folder=tmp_path) as again:
        again.learn(CANDIDATES)
        again.calibrate(CANDIDATES)
        assert [again.predict(config) for config in CANDIDATES] == before
    assert Formula.asked == asked
    with Predictor(setting.but(length=65), folder=tmp_path) as other:
        other.predict(CANDIDATES[0])
    assert Formula.asked > asked


def test_a_table_cut_in_the_middle_of_a_line_goes_on(tmp_path):
    setting = Setting(threads=1)
    with Predictor(setting, folder=tmp_path) as predictor:
        predictor.learn(CANDIDATES[:2])
        path = predictor.table.lines.path
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with Predictor(setting, folder=tmp_path) as predictor:
        predictor.learn(CANDIDATES[:2])
        predictor.predict(CANDIDATES[0])
    assert all(line.endswith(b"}") for line in path.read_bytes().splitlines())


def test_heads_that_suit_no_rung_are_measured_at_their_own_width(tmp_path):
    config = sublayer.config("gpt2", {"s.heads": 9}, dim=9 * 64, layout="(sf)x2", vocab=256)
    with Predictor(Setting(threads=1), folder=tmp_path) as predictor:
        estimate = predictor.predict(config)
        assert estimate.latency == pytest.approx(predictor.read(config).latency, rel=0.2)


def test_an_encoder_decoder_is_refused(tmp_path):
    with Predictor(folder=tmp_path) as predictor, pytest.raises(ConfigError, match="measure this one whole"):
        predictor.predict(sublayer.config("transformer"))


def test_more_models_than_a_calibration_takes_are_refused(tmp_path):
    with Predictor(folder=tmp_path) as predictor, pytest.raises(ValueError, match="at most 30"):
        predictor.calibrate([CANDIDATES[0]] * 31)


def test_a_memory_is_told_in_parts(tmp_path):
    with Predictor(Setting(threads=1), folder=tmp_path) as predictor:
        small, large = (predictor.predict(candidate(256, inner)).memory for inner in ((512, 512), (512, 2048)))
    weights = 3 * 4 * 256 * 1536  # three matrices of a gated feed-forward
    assert large - small == pytest.approx(weights + 400 * 1536, rel=0.01)
    assert math.isfinite(large)
