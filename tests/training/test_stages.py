"""Stages: each trains what it says, the weights go on, and a kill anywhere changes no bit."""

import pytest
import torch

import sublayer
from sublayer.data import Data
from sublayer.data.batches import Lanes, Windows
from sublayer.data.tasks.batches import Chains, Episodes
from sublayer.nn.config import ConfigError
from sublayer.runs import Run
from sublayer.testing import small
from sublayer.training import TrainConfig
from sublayer.training.rehearsal import rehearse
from sublayer.training.stages import plan, resolve, stage_at
from tests.training import tiny

WINDOW = {"s.pattern": "window", "s.pattern.size": 8}
GROW = [{"until": 0.5, "length": 6, "batch": 4, "lr": 0.01, "model": {"s.pattern.size": 3}}]


def staged(*stages, **settings):
    return TrainConfig(steps=100, warmup=5, stages=list(stages), **settings)


def weights(run: Run, step: int | None = None):
    return (run.checkpoint(step) or pytest.fail("no checkpoint")).tensors("model") or {}


# What a stage does


def test_each_stage_has_its_own_sizes_and_rate(book, tmp_path):
    run = tiny.train(
        book,
        tmp_path / "run",
        **WINDOW,
        train__stages=GROW,
        train__log_every=1,
        train__schedule="constant",
        train__warmup=0,
        train__lr=0.001,
    )
    lines = [line for line in run.metrics if "loss" in line]
    assert [line["stage"] for line in lines] == [1, 1, 2, 2]
    assert [line["tokens"] for line in lines] == [24, 48, 80, 112]
    assert [line["rate"] for line in lines] == [0.01, 0.01, 0.001, 0.001]
    assert [(line["step"], line["stage"]) for line in run.metrics if "valid_loss" in line] == [(2, 1), (4, 2)]
    assert run.model_config.stack.alphabet["s"].pattern.size == 8
    assert run.asked["train"]["stages"][0]["until"] == 2


def test_the_pattern_of_a_stage_is_the_one_that_trains(book, tmp_path):
    one = {"train__steps": 2, "train__save_every": 1}
    narrow = [{"until": 1, "model": {"s.pattern.size": 1}}]
    grown = tiny.train(book, tmp_path / "grown", **WINDOW, **one, train__stages=narrow)
    always = tiny.train(book, tmp_path / "narrow", **{**WINDOW, "s.pattern.size": 1}, **one)
    wide = tiny.train(book, tmp_path / "wide", **WINDOW, **one)
    assert equal(weights(grown, 1), weights(always, 1))
    assert not equal(weights(grown, 1), weights(wide, 1))
    assert not equal(weights(grown, 2), weights(always, 2))


def test_a_border_where_nothing_changes_changes_nothing(book, tmp_path):
    """Weights, moments and the order of the data go on."""
    settings = {"train__steps": 6, "train__accumulate": 2}
    plain = tiny.train(book, tmp_path / "plain", **settings)
    cut = tiny.train(book, tmp_path / "cut", **settings, train__stages=[{"until": 2}, {"until": 5}])
    assert equal(weights(cut), weights(plain))
    assert tiny.losses(cut)[-1:] == tiny.losses(plain)[-1:]
    assert cut.checkpoints[-1].notes["cursor"] == plain.checkpoints[-1].notes["cursor"]


def equal(here, there):
    return here.keys() == there.keys() and all(torch.equal(here[name], there[name]) for name in here)


def test_the_best_of_a_stage_is_no_best_of_the_next(book, tmp_path):
    """The figures of two stages do not compare: the next one has its own best, and its own patience."""
    slow = {"train__lr": 1e-30, "train__eval_every": 1, "train__save_every": 1, "train__eval_tokens": None}
    stages = [{"until": 2, "length": 15}]
    run = tiny.train(book, tmp_path / "run", **slow, train__steps=9, train__patience=2, train__stages=stages)
    assert [one.step for one in run.checkpoints][-1] == 5
    assert run.checkpoints[-1].notes["progress"]["best_step"] == 3


def test_later_stages_warm_up_again():
    model = small(sublayer.config("gpt2"))
    first, second, last = plan(model, staged({"until": 0.2}, {"until": 0.5}))
    assert [stage.warm(0) for stage in (first,)] == [1.0]
    assert [second.warm(20 + n) for n in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1])
    assert [last.warm(50 + n) for n in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1])


def test_borders_in_steps_do_not_move_with_the_budget(book, tmp_path):
    run = tiny.train(book, tmp_path / "run", train__stages=[{"until": 0.5}], train__log_every=1)
    longer = sublayer.resume(run.path, {"train.steps": 8}, quiet=True)
    assert [line["stage"] for line in longer.metrics if "loss" in line] == [1, 1, 2, 2, 2, 2, 2, 2]


def test_it_warns_where_training_ends_in_an_early_stage(book, tmp_path, caplog):
    tiny.train(book, tmp_path / "run", train__stages=[{"until": 3}], train__tokens=40)
    assert "training ended in stage 1 of 2, the budget is spent; the run's model is that of the last" in caplog.text


# Killed and resumed


@pytest.mark.parametrize("until", [1, 2, 3, 4])
def test_a_kill_anywhere_changes_no_bit(until):
    """Saved after steps 2 and 4 and at the border, killed after step 3."""
    config = small(sublayer.config("gpt2")).but(WINDOW)
    stage = {"length": 7, "batch": 3, "lr": 0.01, "model": {"s.pattern.size": 3}}
    found = rehearse(config, stages=[{**stage, "until": until}])
    assert found.differing == []
    assert {b'"stage": 1', b'"stage": 2'} <= set(found.whole_metrics.replace(b"}", b",").split(b", "))


def test_a_kill_changes_no_bit_where_state_is_carried():
    config = small(sublayer.config("transformer-xl"))
    stages = [{"until": 2, "batch": 4, "model": {"s.memory.length": 3}}, {"until": 4, "length": 5}]
    assert rehearse(config, stages=stages).differing == []


# What is refused


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([{"until": 0.5, "lenght": 5}], r"train\.stages\.0\.lenght: there is no such field"),
        ([{"length": 5}], r"train\.stages\.0\.until: a value is required"),
        ([{"until": 2.5}], "until=2.5: neither a share of the steps, below 1, nor a whole number of steps; use 2"),
        ([{"until": 0}], r"train\.stages\.0\.until: input should be greater than 0"),
        ([{"until": 3}, {"until": 2}], r"stages\.1\.until=2: it would end at step 2, but begins at step 3 of 4"),
        (
            [{"until": 4}],
            r"stages\.0\.until=4: it would end at step 4, .* the run's own settings follow the last stage",
        ),
        ([{"until": 0.05}], r"stages\.0\.until=0.05: it would end at step 0"),
        ([{"until": 2, "model": {"s.hedas": 2}}], r"train\.stages\.0: model\..*s\.hedas: there is no such field"),
        ([{"until": 2, "model": {"f.inner": 8}}], r"train\.stages\.0: model: .* would have shape \(8, 16\), and \(16"),
        ([{"until": 2, "model": {"s.bias": False}}], r"train\.stages\.0: model: .*bias would have shape none, and \("),
        ([{"until": 2, "length": 2000}], r"train\.stages\.0: train\.length=2000: the model has 1024 learned positions"),
        ([{"until": 2, "batch": 0}], r"train\.stages\.0\.batch: input should be greater than or equal to 1"),
    ],
    ids=str,
)
def test_wrong_stages_are_refused_before_anything_is_written(book, tmp_path, stages, said):
    with pytest.raises(ValueError, match=said) as error:
        tiny.train(book, tmp_path / "run", train__stages=stages)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_text_too_short_for_a_stage_is_refused(book, tmp_path):
    with pytest.raises(ValueError, match=r"train\.stages\.1: .* too few for one window of 9,000"):
        tiny.train(
            book,
            tmp_path / "run",
            position="rotary",
            train__stages=[{"until": 2}, {"until": 3, "length": 9000}],
        )


def test_what_cannot_go_with_stages():
    with pytest.raises(ConfigError, match="rows grow by grow_from, too"):
        staged({"until": 0.5}, grow_from=4)
    with pytest.raises(ConfigError, match=r"steps is none; set train\.steps"):
        TrainConfig(steps=None, minutes=1, stages=[{"until": 5}])
    with pytest.raises(ConfigError, match=r"stages\.0\.until=50: it would end at step 50"):
        staged({"until": 50}).but(steps=40)


def test_a_batch_of_a_stage_must_be_shared_evenly(book, tmp_path):
    with pytest.raises(ValueError, match=r"train\.batch=3 cannot be shared evenly by 2 processes"):
        sublayer.train(
            "gpt2", str(book), tmp_path / "run", tiny.changes(train__stages=[{"until": 2, "batch": 3}]), processes=2
        )


# The paper's recipe


def test_the_recipe_of_longformer():
    """Five phases: windows and lengths double, rates halve (Beltagy et al. 2020, table 12)."""
    model = sublayer.config("longformer", {"s.pattern.smallest": 512, "s.pattern.size": 8192})
    steps = [430_000, 50_000, 50_000, 35_000, 5_000]
    phases = [
        {
            "until": sum(steps[: n + 1]),
            "length": 2048 * 2**n,
            "batch": (32, 32, 16, 16)[n],
            "lr": 2.5e-4 / 2**n,
            "model": {"s.pattern.smallest": 32 * 2**n, "s.pattern.size": 512 * 2**n},
        }
        for n in range(4)
    ]
    config = TrainConfig(
        steps=sum(steps), length=23_040, batch=16, lr=2.5e-4 / 16, warmup=10_000, schedule="constant", stages=phases
    )
    stages = plan(model, resolve(model, config))
    assert [stage.config.length for stage in stages] == [2048, 4096, 8192, 16384, 23040]
    windows = [[part.pattern.reach + 1 for part in stage.model.stack.parts[::22]] for stage in stages]
    assert [first for first, _ in windows] == [32, 64, 128, 256, 512]
    assert [stage.warmup for stage in stages] == [0, 5000, 5000, 3500, 500]
    assert [stage_at(stages, step).number for step in (0, 429_999, 430_000, 569_999)] == [1, 1, 2, 5]
    assert stages[-1].model == model


# Where in the data a stage begins


@pytest.mark.parametrize("kind", [Windows, Lanes])
def test_texts_are_read_on_from_where_the_stage_before_stopped(kind):
    ids = torch.arange(5000).numpy()
    before, after, same = kind(ids, 4, 16, seed=1), kind(ids, 8, 32, seed=1), kind(ids, 4, 16, seed=1)
    for _ in range(100):
        next(before)
    after.seek(before.epoch)
    assert after.epoch == pytest.approx(before.epoch, abs=0.02)
    same.seek(before.epoch)
    assert torch.equal(next(same).inputs_BL, next(before).inputs_BL)


@pytest.mark.parametrize("carry", [False, True])
def test_episodes_are_read_on_too(carry):
    data = sublayer.data.prepare(sublayer.data.Task.named("copy").but(episodes=40, valid=4, test=4, length=3))
    assert isinstance(data, Data)
    before, after = (data.batches(batch, 8, carry=carry, seed=1) for batch in (2, 4))
    assert isinstance(before, Chains if carry else Episodes)
    for _ in range(30):
        next(before)
    after.seek(before.epoch)
    begins = next(after)
    assert begins.fresh
    assert before.epoch <= after.epoch <= before.epoch + 1.2
