"""Comparisons: the same for all but the variant; what is done is not done again, however often it is killed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from sublayer.comparison import ComparisonTable, Variant, compare
from sublayer.comparison.request import fitted
from sublayer.data import Data, prepare
from sublayer.executors import trainings
from sublayer.nn.layout import par
from sublayer.runs import Run, sealed_json
from tests.training import tiny
from tests.training.killing import live

CHANGES = {**tiny.SMALL, "f.inner": 32, "train.steps": 4, "train.save_every": 1, "train.threads": 1}
ROTARY = Variant.of("gpt2", {"position": "rotary"})
CLOCKS = ("tokens_per_second", "minutes", "latency", "memory", "step_memory")


def timeless(table):
    """What does not depend on the machine's clock."""
    data = table if isinstance(table, dict) else table.dump()
    rows = [{key: value for key, value in row.items() if key not in CLOCKS} for row in data["rows"]]
    return {**data, "rows": rows, "device": None}


def reading(models, setting):
    """In place of a measurement."""
    same = {"low": 0.0, "high": 0.1, "memory": 1000, "length": setting.length}
    dumps = [{"latency": 0.001 * model.dim, **same} for model in models]
    return [SimpleNamespace(dump=lambda dump=dump: dump, disturbed=None) for dump in dumps]


@pytest.fixture(scope="module")
def made(book, tmp_path_factory):
    """One that nobody disturbed."""
    out = tmp_path_factory.mktemp("comparison") / "made"
    return out, compare(["gpt2", ROTARY], str(book), out, CHANGES, measure=reading)


def test_a_table_of_ordinary_runs(made):
    out, table = made
    assert json.loads((out / "table.json").read_text()) == table.dump()
    assert ComparisonTable.read(out / "table.json") == table
    assert sorted(path.name for path in (out / "runs").iterdir()) == [
        *(f"gpt2-{seed}" for seed in range(3)),
        *(f"position=rotary-{seed}" for seed in range(3)),
    ]
    first, second = table.rows
    assert (first.name, second.name) == ("gpt2", "position=rotary")
    assert table.labels["bits_per_byte"] == "valid bits/byte"
    assert table.labels["test.bits_per_byte"] == "test bits/byte"
    for row in table.rows:
        runs = [Run.open(out / place) for place in row.runs]
        assert [run.asked["train"]["seed"] for run in runs] == row.seeds == [0, 1, 2]
        assert row.losses == [tiny.losses(run, "valid_loss")[-1] for run in runs]
        assert row.low < row.mean < row.high
        assert row.best.mean <= row.mean
        assert row.params == runs[0].model_config.cost().params
        assert row.tokens == 4 * 2 * 16
        assert row.tokens_per_second > 0
        assert row.test.bits_per_byte.mean > 0
        assert (row.memory, row.latency.latency) == (1000, 0.016)
    assert first.difference is None
    differences = [b - a for a, b in zip(first.losses, second.losses, strict=True)]
    assert second.difference.mean == pytest.approx(sum(differences) / 3)
    assert second.difference.verdict in ("better", "worse", "no difference seen")


def test_a_folder_with_other_names_for_the_same_variants_goes_on(made, book, tmp_path, monkeypatch):
    """Earlier versions named a variant by all its words."""
    out = tmp_path / "old"
    shutil.copytree(made[0], out)
    asked = sealed_json.read_asked(out / "compare.json")
    old = {"name": "gpt2 position=rotary", "slug": "gpt2-position=rotary"}
    asked["variants"][1] |= old
    sealed_json.seal(out / "compare.json", asked)
    for seed in range(3):
        (out / "runs" / f"position=rotary-{seed}").rename(out / "runs" / f"{old['slug']}-{seed}")
    monkeypatch.setattr(trainings, "resume", None)
    table = compare(["gpt2", ROTARY], str(book), out, CHANGES, measure=reading)
    assert [row.name for row in table.rows] == ["gpt2", old["name"]]
    assert table.rows[1].losses == made[1].rows[1].losses
    named = Variant.of("gpt2", {"position": "rotary"}, "turned")
    with pytest.raises(ValueError, match="turned: this comparison was begun with the name 'gpt2 position=rotary'"):
        compare(["gpt2", named], str(book), out, CHANGES, measure=reading)


def test_a_layout_rule_of_a_variant_stands_on_the_common_layout(book):
    variants = [
        Variant.of("gpt2"),
        Variant.of("gpt2", {"layout": "par(5)"}),
        Variant.of("gpt2", {"layout": "par(5,6)"}),
    ]
    changes = {"layout": "(sf)x4", "dim": 8, "s.heads": 2}
    found = [fitted(variant, changes, prepare(Data.Config.guess(str(book)))).stack.layout for variant in variants]
    assert found == ["(sf)x4", par("(sf)x4", 5), par("(sf)x3", 5)]


def test_seeds_and_data_are_shared(made):
    out, table = made
    asked = [[Run.open(out / place).asked for place in row.runs] for row in table.rows]
    for ours, theirs in zip(*asked, strict=True):
        assert (ours["train"], ours["text"], ours["data"]) == (theirs["train"], theirs["text"], theirs["data"])


def test_the_same_request_goes_on_and_trains_nothing_again(made, book, monkeypatch):
    out, table = made
    monkeypatch.setattr(trainings, "trained", lambda task: pytest.fail("it is done"))
    again = compare(["gpt2", ROTARY], str(book), out, CHANGES, measure=None)
    assert timeless(again) == timeless(table)


def test_another_request_is_refused(made, book):
    out, _ = made
    for other, seeds, what in ((CHANGES, (0, 1), "seeds"), ({**CHANGES, "train.lr": 0.1}, (0, 1, 2), "variants")):
        with pytest.raises(ValueError, match=f"another comparison is there, with another {what}"):
            compare(["gpt2", ROTARY], str(book), out, other, seeds=seeds)
    with pytest.raises(ValueError, match="holds other files"):
        compare(["gpt2", ROTARY], str(book), out / "runs", CHANGES)


def test_learning_rates_are_tried_and_the_best_is_used_for_all(book, tmp_path):
    rates, out = (1e-5, 3e-2), tmp_path / "out"
    table = compare(["gpt2", ROTARY], str(book), out, CHANGES, seeds=(0, 1), lrs=rates, measure=None)
    for row in table.rows:
        assert row.lr == 3e-2
        assert [Run.open(out / place).asked["train"]["lr"] for place in row.runs] == [3e-2, 3e-2]
        tried = Run.open(out / "tuning" / f"{row.slug}-1e-05")
        assert tiny.losses(tried, "valid_loss")[-1] > row.losses[0]
    again = compare(["gpt2", ROTARY], str(book), out, CHANGES, seeds=(0, 1), lrs=rates, measure=None)
    assert timeless(again) == timeless(table)


def test_equal_parameters(book, tmp_path):
    wide = {"dim": 64, "f.inner": 128, "position.limit": 16, "train.steps": 1}
    plain = Variant.of("transformer-lm", {"f.inner": 512})
    for target in ("first", 60_000):
        asked = {key: value for key, value in {**CHANGES, **wide}.items() if key != "position.limit"}
        table = compare(
            [ROTARY, plain], str(book), tmp_path / str(target), asked, seeds=(0,), equal_params=target, measure=None
        )
        wanted = table.rows[0].params if target == "first" else target
        for row in table.rows:
            assert row.params_off == pytest.approx(row.params / wanted - 1)
            assert abs(row.params_off) < 0.1
        assert table.rows[1].difference.verdict == "one seed, no verdict"


def test_a_variant_that_diverges_comes_last_and_says_why(book, tmp_path):
    wild = Variant.of("gpt2", {"train.lr": 1e4, "train.clip": None, "train.warmup": 0})
    asked = {**CHANGES, "train.steps": 20, "train.log_every": 1}
    table = compare([wild, "gpt2"], str(book), tmp_path / "out", asked, seeds=(0,), measure=None)
    assert "train again with a lower train.lr" in table.rows[0].diverged["0"]
    assert [row.name for row in table.ranked] == ["gpt2", "train.lr=10000.0 train.clip=null train.warmup=0"]
    assert table.rows[1].difference.verdict == "nothing to compare"


def test_encoders_are_compared_by_their_own_loss(book, tmp_path):
    variants = ["bert-base", Variant.of("bert-base", {"layout": "sfsf"})]
    asked = {**CHANGES, "layout": "ssff", "train.steps": 1}
    table = compare(variants, str(book), tmp_path / "out", asked, seeds=(0,), measure=reading)
    assert all(row.perplexity is row.test is row.bits_per_byte is None for row in table.rows)


def test_a_machine_too_busy_to_measure_costs_only_those_figures(book, tmp_path, caplog):
    def busy(models, setting):
        quiet, other = reading(models, setting)
        other.disturbed = "others work"
        return [quiet, other]

    asked = {**CHANGES, "train.steps": 1}
    table = compare(["gpt2", ROTARY], str(book), tmp_path / "out", asked, seeds=(0,), measure=busy)
    assert [row.latency for row in table.rows] == [None, None]
    assert "latency and memory were not measured: the machine is too busy to measure: others work" in caplog.text
    assert "--anyway" not in caplog.text  # which compare does not have
    again = compare(["gpt2", ROTARY], str(book), tmp_path / "out", asked, seeds=(0,), measure=reading)
    assert all(row.latency for row in again.rows)


@pytest.mark.parametrize(
    ("variants", "changes", "how", "said"),
    [
        (["gpt2"], {}, {}, "1 variant: a comparison needs at least two"),
        (["gpt2", "gpt2"], {}, {}, "gpt2: given twice"),
        (["gpt2", "bert-base"], {}, {}, "bert-base: encoder models and decoder models"),
        (["gpt2", "transformer"], {}, {}, "has no objective for a text"),
        (["gpt2", ROTARY], {}, {"seeds": ()}, "seeds: none"),
        (["gpt2", ROTARY], {}, {"seeds": (1, 1)}, "holds one twice"),
        (["gpt2", ROTARY], {"train.steps": None}, {}, "the budget is missing: .*--tokens 1M"),
        (["gpt2", ROTARY], {"train.steps": -5}, {}, "train.steps"),
        (["gpt2", ROTARY], {"train.seed": 3}, {}, "use --seeds"),
        (["gpt2", ROTARY], {"train.length": 4000}, {}, "gpt2: .*4000"),
        ([ROTARY, "gpt2"], {"train.length": 4000}, {}, "gpt2 position=rotary: .*4,000"),
        (["gpt2", ROTARY], {"position.limit": 8}, {}, "gpt2: train.length=16: the model has 8 learned positions"),
        (["gpt2", ROTARY], {}, {"equal_params": 10}, "gpt2: no width gives 10 parameters"),
        (["gpt2", ROTARY], {}, {"equal_params": "most"}, "expected 'first' or a number"),
        (["gpt2", Variant.of("gpt2", {"train.lr": 1.0})], {}, {"lrs": (1.0, 2.0)}, "has a train.lr of its own"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(variants, changes, how, said, book, tmp_path, monkeypatch):
    monkeypatch.setattr(trainings, "trained", lambda task: pytest.fail("it should have been refused"))
    with pytest.raises(ValueError, match=said):
        compare(variants, str(book), tmp_path / "out", {**CHANGES, **changes}, **how)
    assert not (tmp_path / "out").exists()


def test_a_text_without_valid_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "short.txt").write_text("a few words only")
    with pytest.raises(ValueError, match="short"):
        compare(["gpt2", ROTARY], str(tmp_path / "short.txt"), tmp_path / "out", CHANGES)


def go_on(book, out, lrs=()):
    """What a user does, each time."""
    return lambda pool=None: compare(["gpt2", ROTARY], str(book), out, CHANGES, lrs=lrs, measure=None, pool=pool)


def same(out: Path, made: Path) -> None:
    tables = [json.loads((folder / "table.json").read_text()) for folder in (out, made)]
    assert timeless(tables[0]) == timeless(tables[1])
    for place in (place for row in tables[0]["rows"] for place in row["runs"]):
        assert tiny.files(out / place) == tiny.files(made / place)


@pytest.mark.parametrize("lrs", [(), (1e-3, 3e-3)])
def test_killed_at_random_points_it_comes_to_the_same_table(lrs, book, tmp_path):
    whole = live(go_on(book, tmp_path / "made", lrs), tmp_path / "made")
    out, chance = tmp_path / "out", random.Random(len(lrs))
    kills = [live(go_on(book, out, lrs), out, event=chance.randint(1, whole.events // 2)) for _ in range(6)]
    assert None in kills
    assert live(go_on(book, out, lrs), out)
    same(out, tmp_path / "made")


WORK = """
import sys
from sublayer import executors
from tests.comparison.test_compare import go_on
with executors.pool(workers=2) as pool:
    print("ready", flush=True)
    go_on(*sys.argv[1:])(pool=pool)
"""


def test_killed_with_its_workers_it_comes_to_the_same_table(made, book, tmp_path):
    """SIGKILL to the process that has two others train for it."""
    out, chance = tmp_path / "out", random.Random(0)
    words = [sys.executable, "-c", WORK, str(book), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as working:
        assert working.stdout is not None
        assert working.stdout.readline() == b"ready\n"
        seen = chance.randint(20, 60)
        while working.poll() is None and files(out) < seen:
            with suppress(subprocess.TimeoutExpired):
                working.wait(0.01)
        working.kill()
        assert working.stderr is not None
        said = working.stderr.read()
    assert working.returncode == -signal.SIGKILL, said.decode()
    compare(["gpt2", ROTARY], str(book), out, CHANGES, measure=reading)
    same(out, made[0])


def files(folder: Path) -> int:
    """Those there are, while others come and go."""
    return sum(len(folders) + len(names) for _, folders, names in os.walk(folder))
