"""Comparisons by length: as many tokens a step at every length, nothing done twice, powers that fit."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublayer
from sublayer.comparison import LengthTable, Variant, compare_lengths
from sublayer.comparison.length_table import exponent
from sublayer.executors import trainings
from sublayer.runs import Run
from tests.comparison.test_compare import CHANGES, ROTARY, reading

SHORT = {**{key: value for key, value in CHANGES.items() if key != "train.length"}, "train.steps": 2}


def run(book, out, lengths=(16, 8), changes=SHORT, **how):
    return compare_lengths(
        ["gpt2", ROTARY], str(book), out, changes, lengths, **{"seeds": (0,), "measure": None, **how}
    )


@pytest.fixture(scope="module")
def made(book, tmp_path_factory):
    out, seen = tmp_path_factory.mktemp("lengths") / "made", []
    return out, run(book, out, measure=reading, on_length=lambda *told: seen.append(told)), seen


def test_a_comparison_for_each_length(made):
    out, table, seen = made
    assert seen == [(8, 0, 2), (16, 1, 2)]
    assert LengthTable.read(out / "lengths.json") == table
    assert (table.lengths, table.step_tokens) == ([8, 16], 16)
    assert [row.name for row in table.rows] == ["gpt2", "position=rotary"]
    for row in table.rows:
        assert [(point.length, point.rows) for point in row.points] == [(8, 2), (16, 1)]
        for point in row.points:
            inside = out / table.folders[str(point.length)]
            there = json.loads((inside / "table.json").read_text())
            (found,) = [other for other in there["rows"] if other["name"] == row.name]
            assert (point.loss.mean, point.test_loss.mean) == (found["mean"], found["test"]["loss"]["mean"])
            assert (point.latency.latency, point.memory) == (found["latency"]["latency"], 1000)
            train = Run.open(inside / found["runs"][0]).asked["train"]
            assert (train["length"], train["batch"]) == (point.length, point.rows)
            assert found["tokens"] == 2 * 16
        assert row.exponents.latency == pytest.approx(0, abs=1e-9)
        assert row.exponents.step_memory is None


def test_done_is_done_and_lengths_may_be_added(made, book, monkeypatch):
    out, table, _ = made
    with pytest.raises(ValueError, match=r"a training step reads 16 tokens there, fewer than a row of 32"):
        run(book, out, (8, 32))
    longer = run(book, out, (4, 16), measure=reading)
    assert longer.lengths == [4, 8, 16]
    assert [row.points[1:] for row in longer.rows] == [row.points for row in table.rows]
    monkeypatch.setattr(trainings, "trained", lambda task: pytest.fail("it is done"))
    assert run(book, out, (4, 8), measure=reading) == longer
    for how, what in (({"seeds": (0, 1)}, "seeds"), ({"changes": {**SHORT, "train.lr": 0.1}}, "variants")):
        with pytest.raises(ValueError, match=f"another comparison is there, with another {what}"):
            run(book, out, (2, 4), **how)
    with pytest.raises(ValueError, match="another comparison by length is there, with another batch"):
        run(book, out, (4, 8), {**SHORT, "train.batch": 4, "train.steps": 2})
    assert not (out / "length-2").exists()


def test_stopped_between_lengths_it_goes_on(made, book, tmp_path):
    _, table, _ = made
    out = tmp_path / "out"

    def stop(length, done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(book, out, measure=reading, on_length=stop)
    assert LengthTable.read(out / "lengths.json").lengths == [8]
    clock = out / "length-8" / "runs" / "gpt2-0" / "clock.jsonl"
    before = clock.read_bytes()
    done = run(book, out, measure=reading)
    assert clock.read_bytes() == before
    assert [[point.loss for point in row.points] for row in done.rows] == [
        [point.loss for point in row.points if point.length in (8, 16)] for row in table.rows
    ]


@pytest.mark.parametrize(
    ("lengths", "changes", "said"),
    [
        ((8,), {}, "lengths: 8; a curve needs at least two"),
        ((), {}, "lengths: none; a curve needs at least two"),
        ((8, 0), {}, "lengths: 8, 0; each must be at least 1"),
        ((8, 16, 8), {}, "lengths: 8 is given twice"),
        ((8, 16), {"train.length": 8}, "train.length=8: it is set to each of the lengths"),
        ((8, 16), {"position.limit": 8}, "length 16: gpt2: train.length=16: the model has 8 learned positions"),
        ((8, 4000), {"train.batch": 1}, "length 4,000: gpt2: "),
        ((8, 16), {"position.limit": 4}, "^gpt2: train.length=8: the model has 4 learned positions"),
        ((8, 16), {"train.batch": "many"}, "train.batch"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(lengths, changes, said, book, tmp_path):
    with pytest.raises(ValueError, match=said):
        run(book, tmp_path / "out", lengths, {**SHORT, **changes})
    assert not (tmp_path / "out").exists()


def test_episodes_have_lengths_of_their_own(tmp_path):
    with pytest.raises(ValueError, match="each episode is a row of its own length; lengths need a plain text"):
        compare_lengths(["gpt2", ROTARY], "task:copy", tmp_path / "out", SHORT, (8, 16))


def test_a_folder_with_other_files_is_refused(made, book):
    with pytest.raises(ValueError, match="the folder holds other files"):
        run(book, made[0] / "length-8", (4, 8))


def test_names_of_variants_and_the_package(book, tmp_path):
    variants = [Variant.of("gpt2", name="one"), Variant.of("gpt2", {"position": "rotary"}, "two")]
    how = {"seeds": (0,), "measure": None}
    table = sublayer.compare_lengths(variants, str(book), tmp_path / "out", SHORT, [4, 8], **how)
    assert [row.name for row in table.rows] == ["one", "two"]
    assert [row.exponents.latency for row in table.rows] == [None, None]


@given(
    st.lists(st.integers(1, 2**20), min_size=2, max_size=8, unique=True),
    st.floats(-1, 3),
    st.floats(1e-6, 1e6),
)
def test_the_power_of_an_exact_power_is_found(lengths, power, scale):
    values = [scale * length**power for length in lengths]
    assert exponent(lengths, values) == pytest.approx(power, abs=1e-3)


def test_powers_of_what_is_there():
    assert exponent([8, 16], [2.0, 8.0]) == pytest.approx(2)  # two lengths: the slope
    assert exponent([8, 16, 32], [2.0, None, 8.0]) == pytest.approx(1)
    assert exponent([8, 16, 32], [1.0, 4.0, 4.0]) == pytest.approx(1)  # the middle of three does not tilt it
    assert exponent([8, 16], [0.0, 4.0]) is exponent([8], [1.0]) is exponent([], []) is None
    assert not math.isnan(exponent([8, 16], [3, 3]) or 0)
