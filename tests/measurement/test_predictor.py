"""The table and what is predicted from it, with a device made of formulas in place of the worker."""

import json
import math

import pytest

import sublayer
from sublayer.measurement import Predictor, Setting, fingerprint, table
from sublayer.measurement.quiet import Machine
from sublayer.measurement.quiet_pace import QuietPace
from sublayer.measurement.reading import Memory
from sublayer.measurement.stored import forget
from sublayer.nas.ranking import spearman
from sublayer.nn.config import ConfigError
from tests.measurement.plain import PACE, reading


class Formula:
    """Reads models by their FLOPs and parameters; counts how often it is asked."""

    asked, busy = 0, False
    """busy: whether other processes disturb, so that times are ten times as long."""

    def __init__(self, setting, plugins=(), folder=None):
        self.setting = setting

    def read(self, config, *, memory, tolerance, seconds):
        Formula.asked += 1
        cost = config.cost(self.setting.length, memory)
        time = 1e-4 + 1e-5 * len(config.stack.parts) + 1e-11 * cost.flops.total
        state = sum(8 * config.dim * 100 for part in config.stack.parts if hasattr(part, "heads"))
        widest = max(part.width(config.dim) if hasattr(part, "width") else config.dim for part in config.stack.parts)
        parts = Memory(4 * cost.params, state, 400 * widest + 64, 64)
        return reading(10 * time if Formula.busy else time, parts=parts, others=2.0 if Formula.busy else 0.0)

    def learn_pace(self, reading):
        return QuietPace(PACE, 0.02)

    def __exit__(self, *_):
        pass


@pytest.fixture(autouse=True)
def formula(monkeypatch):
    Formula.asked, Formula.busy = 0, False
    monkeypatch.setattr(table, "Worker", Formula)
    monkeypatch.setattr(Machine, "disturbance", lambda self, threads: "others work" if Formula.busy else None)


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


FEW = CANDIDATES[:3]


def predicted(folder):
    with Predictor(Setting(threads=1), folder=folder) as predictor:
        predictor.learn(FEW)
        predictor.calibrate(FEW[:2])
        return [predictor.predict(config).latency for config in FEW], predictor


def test_what_a_busy_minute_stored_is_measured_again_when_it_is_over(tmp_path):
    expected, _ = predicted(tmp_path / "quiet")
    Formula.busy = True
    wrong, predictor = predicted(tmp_path)
    assert min(w / e for w, e in zip(wrong, expected, strict=True)) > 5
    assert predictor.disturbed == "other processes take 2.0 cores, and 1 of 2 are needed"
    asked = Formula.asked
    assert predicted(tmp_path)[0] == wrong
    assert Formula.asked == asked  # the machine is still busy: nothing better can be had
    assert not predictor.knows(FEW)
    Formula.busy = False
    again, predictor = predicted(tmp_path)
    assert again == expected
    assert predictor.disturbed is None
    assert predictor.knows(FEW)
    asked = Formula.asked
    assert predicted(tmp_path)[0] == expected
    assert Formula.asked == asked


def test_a_predictor_that_began_busy_ends_as_one_that_began_quiet(tmp_path):
    expected, _ = predicted(tmp_path / "quiet")
    Formula.busy = True
    wrong, predictor = predicted(tmp_path)
    predictor.relearn()
    assert [predictor.predict(config).latency for config in FEW] == wrong  # still busy
    Formula.busy = False
    predictor.relearn()
    assert [predictor.predict(config).latency for config in FEW] == expected


def test_readings_of_earlier_versions_load_and_are_replaced_when_better_can_be_had(tmp_path):
    _, predictor = predicted(tmp_path)
    path = predictor.table.lines.path
    new = ("raw", "pace", "shares", "conditions", "disturbed")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    old = [{name: value for name, value in line.items() if name not in new} | {"pace": 0.004} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    Formula.busy, asked = True, Formula.asked
    with_old, predictor = predicted(tmp_path)
    assert Formula.asked == asked
    assert predictor.disturbed is None
    Formula.busy = False
    assert predicted(tmp_path)[0] == pytest.approx(with_old)
    assert Formula.asked > asked


def test_what_is_forgotten_is_measured_again(tmp_path):
    _, predictor = predicted(tmp_path)
    asked = Formula.asked
    assert predictor.forget() == asked
    assert not predictor.table.lines.path.exists()
    predicted(tmp_path)
    assert Formula.asked == 2 * asked
    device = fingerprint("cpu", 1)
    assert forget("cpu", 1, tmp_path) == asked
    assert forget("cpu", 1, tmp_path) == 0
    assert not list((tmp_path / "measurement").glob(f"{device['id']}*"))
