"""The loop: each key of `train.…` does what it says."""

import math

import pytest
import torch
from torch import nn

import sublayer
from sublayer.nn.part import Part
from sublayer.runs import Progress, Run
from sublayer.runs.weights import weights_of
from sublayer.training import DivergedError, TrainConfig, guard
from tests.training import tiny

PLAIN_SGD = {"train__optimizer": {"kind": "sgd", "momentum": 0}, "train__schedule": "constant", "train__warmup": 0}


@pytest.fixture
def train(book, tmp_path):
    """`train(train__steps=3)` → a run in a folder of its own."""
    return lambda paper="gpt2", **changes: tiny.train(
        book, tmp_path / f"run{len(list(tmp_path.glob('run*')))}", paper, **changes
    )


def weights(run: Run, step: int | None = None, name: str = "model") -> dict[str, torch.Tensor]:
    checkpoint = run.checkpoint(step)
    assert checkpoint is not None
    return checkpoint.tensors(name) or {}


def apart(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def moved(run: Run) -> float:
    """How far the first step went."""
    before, after = weights(run, 0), weights(run, 1)
    return math.sqrt(sum(float((after[name] - before[name]).square().sum()) for name in before))


# A step


@pytest.mark.parametrize("clip", [0.05, None])
def test_clipping(train, clip):
    run = train(train__steps=1, train__lr=1.0, train__clip=clip, **PLAIN_SGD)
    (norm,) = tiny.losses(run, "norm")
    assert norm > 0.2
    assert moved(run) == pytest.approx(clip or norm, rel=1e-4)


def test_a_short_gradient_is_not_made_longer(train):
    run = train(train__steps=1, train__lr=1.0, train__clip=1e6, **PLAIN_SGD)
    assert moved(run) == pytest.approx(tiny.losses(run, "norm")[0], rel=1e-4)


def test_two_batches_are_as_good_as_one_twice_as_large(train):
    changes = {**tiny.STILL, "train__steps": 3, "train__log_every": 1}
    one = train(train__batch=4, **changes)
    two = train(train__batch=2, train__accumulate=2, **changes)
    assert apart(weights(one), weights(two)) < 1e-5
    for name in ("loss", "norm", "tokens", "rate"):
        assert tiny.losses(one, name) == pytest.approx(tiny.losses(two, name), abs=1e-5)


def test_labels_are_smoothed_in_training_only(train):
    changes = {**tiny.STILL, "train__steps": 2, "train__lr": 1e-9, "train__eval_every": 2}
    plain, smooth = train(**changes), train(train__smoothing=0.5, **changes)
    assert tiny.losses(plain, "valid_loss") == pytest.approx(tiny.losses(smooth, "valid_loss"), rel=1e-6)
    assert tiny.losses(plain) != pytest.approx(tiny.losses(smooth), rel=1e-4)


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl", "bert-base"])
def test_bf16_is_near_fp32(train, paper):
    changes = {"train__steps": 3, "train__log_every": 1}
    exact, rough = train(paper, **changes), train(paper, train__precision="bf16", **changes)
    assert tiny.losses(rough) == pytest.approx(tiny.losses(exact), rel=0.02)
    assert tiny.losses(rough) != tiny.losses(exact)
    assert {tensor.dtype for tensor in weights(rough).values()} == {torch.float32}


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl", "bert-base"])
def test_what_is_formed_again_is_the_same(train, paper):
    changes = {"train__steps": 3, "train__log_every": 1, "train__accumulate": 2}
    kept, formed = train(paper, **changes), train(paper, train__recompute=True, **changes)
    assert apart(weights(kept), weights(formed)) < 1e-6
    assert tiny.losses(kept, "norm") == pytest.approx(tiny.losses(formed, "norm"), rel=1e-6)


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl"])
def test_rows_grow(train, paper):
    run = train(paper, train__grow_from=4, train__grow_over=3, train__steps=5, train__log_every=1)
    tokens = [line["tokens"] for line in run.metrics if "loss" in line]
    assert [after - before for before, after in zip([0, *tokens], tokens, strict=False)] == [8, 16, 24, 32, 32]


def test_the_rate_rises_and_falls(train):
    run = train(train__steps=8, train__log_every=1, train__lr=0.5, train__schedule="linear", train__explode=99)
    rates = tiny.losses(run, "rate")
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.5, 0.5 * (1 - 0.9 / 6)])
    assert rates == sorted(rates[:1]) + sorted(rates[1:], reverse=True)


def test_a_warmup_longer_than_the_run_is_named(train, caplog):
    train(train__steps=3, train__warmup=12, train__lr=0.04)
    assert "train.warmup=12 is longer than the run of 3 steps" in caplog.text
    assert "rises to 0.01 only, 25% of the peak; use a smaller train.warmup" in caplog.text
    caplog.clear()
    train(train__steps=None, train__tokens=64, train__warmup=3)  # two steps of 32 tokens
    assert "is longer than the run of 2 steps" in caplog.text
    caplog.clear()
    train(train__steps=3, train__warmup=3)
    assert "warmup" not in caplog.text


# Budgets and ends


def test_tokens_end_it(train):
    run = train(train__steps=None, train__tokens=100, train__log_every=1)
    assert [line["tokens"] for line in run.metrics if "loss" in line] == [32, 64, 96, 128]


def test_time_ends_it(train, monkeypatch):
    """By a clock that goes a second at a look."""
    seconds = iter(range(10**6))
    monkeypatch.setattr("sublayer.training.budget.time.perf_counter", lambda: next(seconds))
    run = train(train__steps=None, train__minutes=0.5, train__log_every=1)
    steps = run.checkpoints[-1].step
    assert 1 < steps < 30
    assert [line["seconds"] for line in run.clock][-1] >= 30
    sublayer.resume(run.path, quiet=True)
    assert run.checkpoints[-1].step == steps
    sublayer.resume(run.path, {"train.minutes": 1.0}, quiet=True)
    assert run.checkpoints[-1].step > steps


def test_it_stops_when_nothing_gets_better(train):
    run = train(train__steps=50, train__patience=2, train__eval_every=1, train__eval_tokens=None, train__lr=1e-30)
    assert run.checkpoints[-1].step == 3
    assert len(set(tiny.losses(run, "valid_loss"))) == 1


def test_checkpoints_kept_are_the_last_and_the_best(train):
    changes = {"train__steps": 8, "train__save_every": 1, "train__eval_every": 1, "train__explode": 99}
    run = train(train__lr=3.0, train__clip=None, **changes)
    scores = tiny.losses(run, "valid_loss")
    best = 1 + scores.index(min(scores))
    assert best < 7, "the test needs a training that gets worse"
    assert [one.step for one in run.checkpoints] == [best, 7, 8]


def test_the_mean_of_the_last_checkpoints(train):
    run = train(train__steps=4, train__save_every=1, train__average=3, train__keep=1)
    assert [one.step for one in run.checkpoints][-3:] == [2, 3, 4]
    last = [weights(run, step) for step in (2, 3, 4)]
    mean = {name: sum(one[name].double() for one in last) / 3 for name in last[0]}
    assert apart(weights(run, name="average"), {name: value.float() for name, value in mean.items()}) < 1e-7
    loaded = sublayer.load(run.path)
    assert apart(dict(loaded.model.state_dict()), weights(run, name="average")) == 0
    assert apart(dict(sublayer.load(run.path, step=3).model.state_dict()), last[1]) == 0


def test_the_first_weights_are_not_averaged(train):
    run = train(train__steps=2, train__save_every=1, train__average=9)
    mean = {name: (weights(run, 1)[name] + value) / 2 for name, value in weights(run, 2).items()}
    assert apart(weights_of(run), mean) < 1e-6


# Fine-tuning


def test_fine_tuning_begins_where_another_run_ended_at_a_tenth_of_the_rate(train, tmp_path):
    (tmp_path / "other.txt").write_text("another text, shorter\n" * 40)
    changes = {"train__steps": 2, "train__log_every": 1, "train__keep": 9}
    first = train(data__tokenizer="char", train__average=2, **changes)
    run = tiny.train(tmp_path / "other.txt", tmp_path / "tuned", train__start=str(first.path), **changes)
    assert apart(weights(run, 0), weights_of(first)) == 0
    assert tiny.losses(run, "rate") == pytest.approx([rate / 10 for rate in tiny.losses(first, "rate")])
    assert run.tokenizer == first.tokenizer


def test_fine_tuning_needs_the_same_model_and_a_whole_checkpoint(train, tmp_path, monkeypatch):
    first = train()
    monkeypatch.chdir(first.path.parent)
    said = rf"train\.start={first.path}: its model has dim=16, this one 32; leave the model's keys"
    with pytest.raises(ValueError, match=said):
        train(train__start=first.path.name, dim=32)
    run = train(train__start=first.path.name, train__steps=1)
    monkeypatch.chdir("/")
    sublayer.resume(run.path, {"train.steps": 2}, quiet=True)
    (first.checkpoints[-1].path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(
        ValueError, match=r"its last checkpoint is damaged; sublayer resume .*run0 names one that is whole$"
    ):
        train(train__start=str(first.path))


# Going wrong


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train__lr": 1e30, "train__eval_every": 1}, "the loss on valid is nan"),
        ({"train__lr": 1e30, "train__eval_every": 9, "train__save_every": 9}, "the loss is nan"),
        (
            {"train__lr": 10.0, "train__eval_every": 9, "train__save_every": 9},
            "the loss is .*, more than .*, after",
        ),
    ],
    ids=["on valid", "in training", "exploding"],
)
def test_divergence_stops_with_the_last_good_checkpoint(train, tmp_path, changes, said):
    remedies = r"a lower train\.lr \(it is .*a longer train\.warmup \(it is 0\) or a smaller train\.clip \(it is 1\)$"
    with pytest.raises(
        DivergedError, match=rf"^step \d+: {said}.*\. The last good checkpoint, step 0, is kept; .* {remedies}"
    ) as error:
        train(train__steps=20, train__warmup=0, train__log_every=2, **changes)
    assert "\n" not in str(error.value)
    (run,) = tmp_path.glob("run*")
    assert [one.step for one in Run.open(run).checkpoints] == [0]
    assert all(math.isfinite(value) for line in Run.open(run).metrics for value in line.values())
    with pytest.raises(DivergedError, match=said):
        sublayer.resume(run, quiet=True)


def test_a_small_loss_may_double():
    progress, config = Progress(first=0.02), TrainConfig()
    for loss in (0.05, 1.4):
        guard.check(loss, 1.0, progress, config, saved=0)
    with pytest.raises(DivergedError, match=r"the loss is 1\.6, more than 1\.5, after a first of 0\.02"):
        guard.check(1.6, 1.0, progress, config, saved=0)
    with pytest.raises(DivergedError, match="the norm of the gradient is inf"):
        guard.check(0.02, math.inf, progress, config, saved=0)


# Auxiliary losses


class Lossy(Part):
    """w x, and a loss of its own: (w − 1)², by which alone w learns at x = 0."""

    class Config(Part.Config, tag="lossy_for_test"):
        name: str = "balance"

        def params(self, place):
            return 1

        def flops(self, place, work):
            return 0

    def __init__(self, config, place):
        super().__init__()
        self.config, self.w = config, nn.Parameter(torch.zeros(1))

    def forward(self, x_BLD, scene, state=None):
        scene.add_loss(self.config.name, (self.w - 1).square().sum())
        return 0 * self.w * x_BLD, None


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("paper", ["gpt2", "bert-base"])
def test_auxiliary_losses_are_added_and_logged_by_name(train, paper, recompute):
    changes = {"f": Lossy.Config(), "train__lr": 0.25, "train__clip": None, "train__explode": 99}
    run = train(paper, **changes, **PLAIN_SGD, train__steps=2, train__log_every=1, train__recompute=recompute)
    assert tiny.losses(run, "balance") == pytest.approx([2.0, 0.5])
    assert weights(run, 1)["stack.sublayers.1.part.w"].item() == pytest.approx(0.5)
    assert all("balance" not in line for line in run.metrics if "valid_loss" in line)


def test_an_auxiliary_loss_of_a_name_that_is_taken(train):
    with pytest.raises(ValueError, match="auxiliary loss 'tokens': metrics have another thing of that name"):
        train(f=Lossy.Config(name="tokens"))
