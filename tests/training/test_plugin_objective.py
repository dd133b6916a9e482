"""An objective and a kind of data from outside, one class each: trained, resumed, scored, compared by their names."""

import json
from dataclasses import replace

import pytest
import torch

import sublayer
from sublayer.cli import main
from sublayer.comparison import Variant, compare
from sublayer.data import Data, Dataset
from sublayer.nn.config import ConfigError
from sublayer.objectives import Meter, Objective
from sublayer.training import TrainConfig
from sublayer.training import train as train_run
from tests.training import tiny


class Backwards(Objective):
    """Each token again, one step late: what stood before it."""

    class Config(Objective.Config, tag="test_backwards"):
        weight: float = 1.0

    def pose(self, batch):
        return replace(batch, targets_BL=batch.inputs_BL)

    def loss(self, h_BLD, batch):
        return self.config.weight * super().loss(h_BLD, batch)

    def observe(self, h_BLD, batch):
        return {"seen": self.model.head(h_BLD).argmax(-1) == batch.targets_BL}

    def meter(self):
        return Share()


class Share(Meter):
    def __init__(self):
        super().__init__()
        self.seen = 0.0

    def add(self, batch, named):
        super().add(batch, named)
        weights_BL = torch.ones_like(batch.inputs_BL) if batch.weights_BL is None else batch.weights_BL
        self.seen += float((named["seen"] * weights_BL).sum())

    @property
    def sums(self):
        return {**super().sums, "seen": self.seen}

    def figures(self, sums, data, split):
        return {**super().figures(sums, data, split), "repeated": sums["seen"] / sums["targets"]}


class Letters(Dataset):
    """A text that is typed as `letters:abc`."""

    class Config(Dataset.Config, tag="test_letters"):
        prefix = "letters:"

        @classmethod
        def named(cls, name):
            return cls(source=name)


NAMED = {"train__objective": "test_backwards", "train__objective__weight": 0.5}


def test_it_is_trained_resumed_and_scored(book, tmp_path, capsys):
    run = tiny.train(book, tmp_path / "run", train__steps=3, train__eval_every=1, **NAMED)
    assert run.asked["train"]["objective"] == {"kind": "test_backwards", "weight": 0.5}
    assert all(0 <= share <= 1 for share in tiny.losses(run, "valid_repeated"))
    assert tiny.losses(run)[0] < 0.6 * 5.6  # half of ln 256
    sublayer.resume(run.path, {"train.steps": 4}, quiet=True)
    with pytest.raises(SystemExit):
        main(["eval", str(run.path), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert 0 <= found["repeated"] <= 1
    assert found["loss"] < 0.6 * 5.6
    with pytest.raises(SystemExit):
        main(["eval", str(run.path)])
    assert "repeated" in capsys.readouterr().out


def test_it_is_compared(book, tmp_path):
    changes = {**tiny.changes(**NAMED), "train.steps": 2}
    table = compare(
        ["gpt2", Variant.of("gpt2", {"position": "rotary"})],
        str(book),
        tmp_path / "out",
        changes,
        seeds=(0,),
        measure=None,
    )
    assert [row.mean < 3.4 for row in table.rows] == [True, True]
    assert table.rows[0].test.loss.mean < 3.4


def test_old_files_and_hashes_stay():
    assert "objective" not in TrainConfig().dump()
    assert TrainConfig.parse(TrainConfig().dump()).objective is None
    named = TrainConfig().but(objective="next_token")
    assert TrainConfig.parse(named.dump()) == named


@pytest.mark.parametrize(
    ("paper", "data", "name", "said"),
    [
        (
            "gpt2",
            None,
            "answers",
            "train.objective=answers: learns from answers, and a text gives tokens; use .*next_token",
        ),
        ("gpt2", "task:copy", "next_token", "train.objective=next_token: learns from tokens, and task:copy gives ans"),
        ("bert-base", None, "next_token", "encoder sees the token it would have to predict; train a decoder"),
        ("transformer", None, "next_token", "encoder_decoder: starts from a source sequence, and next_token gives it"),
        ("gpt2", None, "next_tokn", "unknown objective kind 'next_tokn'; did you mean next_token"),
    ],
)
def test_what_does_not_fit_is_refused(book, tmp_path, paper, data, name, said):
    with pytest.raises(ConfigError, match=said) as error:
        tiny.train(data or book, tmp_path / "run", paper, train__objective=name)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_decoder_may_be_trained_on_hidden_tokens(book, tmp_path):
    run = tiny.train(book, tmp_path / "run", train__objective="masked_tokens", train__steps=1)
    assert run.model_config.vocab == 257
    assert tiny.losses(run, "valid_loss")
    assert tiny.losses(run, "valid_perplexity") == []


def test_a_kind_of_data_claims_a_prefix(book):
    config = Data.Config.guess(f"letters:{book}")
    assert isinstance(config, Letters.Config)
    assert config.source.path == str(book)
    assert Data.Config.guess("task:copy").tag == "copy"
    assert type(Data.Config.guess(str(book))) is Dataset.Config
    with pytest.raises(ConfigError, match="unknown task 'cpoy'; did you mean copy"):
        Data.Config.guess("task:cpoy")


def test_data_is_prepared_once(book, tmp_path, monkeypatch):
    """By `train`, which checks a request and then carries it out."""
    prepared, kept = [], Dataset.Config.prepare

    def counted(self, *args, **kwargs):
        prepared.append(self)
        return kept(self, *args, **kwargs)

    monkeypatch.setattr(Dataset.Config, "prepare", counted)
    changes = {"vocab": 256, "dim": 16, "layout": "sf", "s.heads": 2}
    config = TrainConfig(steps=1, batch=2, length=8)
    train_run(sublayer.config("gpt2"), Data.Config.guess(str(book)), tmp_path / "run", config, changes=changes)
    assert len(prepared) == 1
