"""What holds for every task: the same seed draws the same, configs survive JSON, wrong ones are refused."""

import numpy as np
import pytest

from sublayer.data import Data, DataConfig, Task, prepare
from sublayer.data.tasks.base import draw
from sublayer.data.tokenizer import Symbols, Tokenizer
from sublayer.nn.config import ConfigError

SMALL = {"length": 6, "episodes": 12, "valid": 4, "test": 4}
each = pytest.mark.parametrize("name", Task.names())


def made(name, **more):
    return Task.named(name).but({**SMALL, **more}).build()


def same(one, other):
    return np.array_equal(one.inputs_N, other.inputs_N) and np.array_equal(one.answers_N, other.answers_N)


def test_there_are_these():
    assert Task.names() == ["algorithmic", "copy", "counting", "random-walk", "recall", "reverse"]


@each
def test_the_seed_decides(name):
    first = made(name).train
    draw.cache_clear()
    assert same(made(name).train, first)
    assert not same(made(name, seed=1).train, first)
    assert not same(made(name, valid=12).valid, first)


@each
def test_more_episodes_begin_with_the_same(name):
    few, many = made(name).train, made(name, episodes=1100).train
    assert many.episodes == 1100
    assert same(many.beginning(len(few)), few)


@each
def test_a_config_survives_json(name):
    config = Data.Config.guess(f"task:{name}").but(SMALL)
    assert Data.Config.parse(config.dump()) == config
    assert prepare(config).hash == config.build().hash != made(name, seed=1).hash


@each
def test_every_answer_is_a_class(name):
    task = made(name)
    for part in (task.train, task.valid, task.test):
        assert part.inputs_N.min() >= 0
        assert part.inputs_N.max() < task.vocab
        assert part.answers_N.max() < (task.classes or task.vocab)
        assert part.questions.sum() == part.asked.sum() > 0
        assert part.longest <= task.config.longest(part.name)


@each
def test_symbols_are_a_tokenizer(name, tmp_path):
    task = made(name)
    ids = task.train.inputs_N[:20]
    assert task.tokenizer.encode(task.tokenizer.decode(ids)).tolist() == ids.tolist()
    task.tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json") == task.tokenizer


def test_unknown_symbols_are_refused():
    with pytest.raises(ValueError, match=r"'C' is none of the symbols A B; use those"):
        Symbols(Symbols.Config(symbols=("A", "B"))).encode("A C")


def test_the_beginning_holds_whole_episodes():
    part = made("random-walk").train
    assert part.beginning(None) is part
    assert [part.beginning(tokens).episodes for tokens in (1, 7, 13, 14, 10**9)] == [1, 1, 1, 2, 12]


@pytest.mark.parametrize(
    ("said", "changes", "answer"),
    [
        ("wlak", {}, r"unknown task 'wlak'; expected one of algorithmic, copy, counting, random-walk, recall, reverse"),
        ("random-wlak", {}, r"unknown task 'random-wlak'; did you mean random-walk"),
        ("data", {}, r"unknown task 'data'; expected one of algorithmic, copy"),
        ("", {}, r"unknown task ''; expected one of algorithmic"),
        ("copy", {"length": 0}, r"length: input should be greater than or equal to 1, got 0"),
        ("counting", {"length": 0}, r"length: input should be greater"),
        ("algorithmic", {"length": 1}, r"length: input should be greater than or equal to 2, got 1"),
        ("algorithmic", {"variables": 0}, r"variables: input should be greater than or equal to 1, got 0"),
        ("algorithmic", {"conditions": "!="}, r"conditions: input should be 'order' or 'equality'"),
        ("random-walk", {"size": 1}, r"size: input should be greater than or equal to 2, got 1"),
        ("random-walk", {"sise": 3}, r"unknown key 'sise'; did you mean size"),
        (
            "random-walk",
            {"episodes": 10**9},
            r"episodes of train may have .* tokens, at most 268,435,456 .*; use fewer",
        ),
        ("copy", {"tokenizer": "bpe"}, r"unknown key 'tokenizer'"),
    ],
)
def test_wrong_ones_are_refused(said, changes, answer):
    with pytest.raises(ConfigError, match=answer) as error:
        Data.Config.guess(f"task:{said}").but(changes)
    assert "\n" not in str(error.value)


def test_where_a_text_is_expected_a_task_is_refused():
    with pytest.raises(ConfigError, match="task:copy: is a task, expected a text; a task is for sublayer train"):
        DataConfig.guess("task:copy")


def test_nothing_to_answer_is_refused():
    empty = next(seed for seed in range(99) if not _asks(seed))
    with pytest.raises(ValueError, match="task:algorithmic: train asks for no answer in 1 episodes; use more"):
        _ = made("algorithmic", length=2, episodes=1, seed=empty).train


def _asks(seed):
    try:
        return made("algorithmic", length=2, episodes=1, seed=seed).train.asked.any()
    except ValueError:
        return False


def test_recall_asks_for_values_that_were_told():
    task = Task.named("recall").but(length=6, asked=4, gap=3, episodes=50).build()
    for row in task.train.inputs_N.reshape(50, -1):
        told = {int(key): int(value) for key, value in row[:12].reshape(-1, 2)}
        assert len(told) == 6
        assert (row[12:15] == len(task.symbols) - 1).all()
        asked = [(int(key), int(value)) for key, value in row[15:].reshape(-1, 2)]
        assert len({key for key, _ in asked}) == 4
        assert all(told[key] == value for key, value in asked)
    answers = task.train.answers_N.reshape(50, -1)
    assert (answers[:, 15::2] == task.train.inputs_N.reshape(50, -1)[:, 16::2]).all()
    assert (answers >= 0).sum() == 50 * 4


def test_recall_has_only_so_many_keys():
    with pytest.raises(ConfigError, match="length=53: there are 52 keys; use at most as many pairs"):
        Task.named("recall").but(length=53)
