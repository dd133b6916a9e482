"""Going on: with a larger budget, from an earlier step, after a full disk; and when the text is another one."""

import errno
import shutil

import pytest
import torch

import sublayer
from sublayer.runs import Run
from sublayer.training import TrainConfig, average
from sublayer.training.distribution import World
from sublayer.training.job import read_data
from sublayer.training.trainee import Trainee, read_state
from tests.training import tiny

OFTEN = {"train__steps": 4, "train__save_every": 1, "train__log_every": 1}


@pytest.fixture(scope="module")
def whole(book, tmp_path_factory):
    return tiny.train(book, tmp_path_factory.mktemp("whole") / "run", "transformer-xl", **OFTEN)


@pytest.fixture
def run(whole, tmp_path):
    return Run.open(shutil.copytree(whole.path, tmp_path / "run"))


def refused(pattern, call, *args, **kwargs):
    with pytest.raises(ValueError, match=pattern) as error:
        call(*args, **kwargs)
    assert "\n" not in str(error.value)


def test_a_larger_budget_goes_on(run):
    before = tiny.files(run.path)
    again = sublayer.resume(run.path, {"train.steps": 5}, quiet=True)
    assert again.checkpoints[-1].step == 5
    assert again.asked["train"]["steps"] == 5
    after = tiny.files(run.path)
    assert after["metrics.jsonl"].startswith(before["metrics.jsonl"])
    assert after["checkpoints/00000004/model.safetensors"] == before["checkpoints/00000004/model.safetensors"]


def test_a_state_goes_on_with_the_strides_it_would_be_read_with(run):
    """Last bits may depend on them."""
    config, world = TrainConfig.parse(run.asked["train"]), World("cpu")
    trainee = Trainee.make(run, config, read_data(run, world), world, run.checkpoint())
    assert trainee.state is not None
    trainee.state = trainee.state.map(lambda x: x.transpose(0, -1).contiguous().transpose(0, -1))
    trainee.save(run, world)
    restored = read_state(run.checkpoints[-1], world, trainee.model, config)
    assert restored is not None
    for here, there in zip(trainee.state.parts, restored.parts, strict=True):
        assert (here is None) == (there is None)
        if here is not None:
            assert here.x.value.stride() == there.x.value.stride()
            assert torch.equal(here.x.value, there.x.value)


def test_a_spent_budget_says_so_and_changes_nothing(run, caplog):
    before = tiny.files(run.path)
    sublayer.resume(run.path, quiet=True)
    assert tiny.files(run.path) == before
    assert "no step taken, the budget is spent; another train.steps, tokens, minutes or patience goes on" in caplog.text


@pytest.mark.parametrize("step", [0, 3])
def test_an_earlier_step_is_gone_on_from(book, tmp_path, step):
    run = tiny.train(book, tmp_path / "run", train__keep=9, train__average=2, **OFTEN)
    expected = tiny.files(run.path)
    sublayer.resume(run.path, step=step, quiet=True)
    assert tiny.files(run.path) == expected


def test_going_back_can_be_interrupted(book, tmp_path, monkeypatch):
    """What was measured after an earlier step is forgotten, so later checkpoints must be, too."""
    run = tiny.train(book, tmp_path / "run", train__keep=9, **OFTEN)
    expected = tiny.files(run.path)

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sublayer.training.loop.take_step", stop)
        with pytest.raises(KeyboardInterrupt):
            sublayer.resume(run.path, step=1, quiet=True)
    sublayer.resume(run.path, quiet=True)
    assert tiny.files(run.path) == expected


@pytest.mark.parametrize(("place", "nth"), [("keep", 1), ("keep", 2), ("keep", 3), ("write", 1)])
def test_interrupted_while_tidying_up(book, tmp_path, monkeypatch, place, nth):
    changes = {"train__steps": 2, "train__save_every": 1, "train__eval_every": 1, "train__average": 1, "train__keep": 1}
    expected = tiny.files(tiny.train(book, tmp_path / "whole", **changes).path)
    done = getattr(average, place)
    calls = iter(range(1, 99))

    def stop(*args):
        if next(calls) == nth:
            raise KeyboardInterrupt
        done(*args)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(average, place, stop)
        with pytest.raises(KeyboardInterrupt):
            tiny.train(book, out, **changes)
    sublayer.resume(out, quiet=True)
    assert tiny.files(out) == expected


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train.lr": 1}, r"train\.lr: cannot change on the way; what can is steps, .*train\.start="),
        ({"train.stpes": 9}, r"train\.stpes: cannot change on the way; what can is steps"),
        ({"train.steps": 0}, "steps: input should be greater than or equal to 1"),
        ({"train.steps": None}, "are all none, so training would not end"),
        ({"dim": 32}, "dim: a run keeps its model and its data; only train"),
        ({"data.tokenizer": "bpe"}, r"data\.tokenizer: a run keeps its model and its data"),
    ],
    ids=str,
)
def test_what_cannot_change(run, changes, said):
    before = tiny.files(run.path)
    refused(said, sublayer.resume, run.path, changes)
    assert tiny.files(run.path) == before


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"train.device": "abacus"}, {}, r"train\.device: 'abacus' cannot be used"),
        ({"train.steps": 500}, {"step": 7}, "no checkpoint at step 7"),
        ({"train.steps": 500}, {"processes": 3}, "cannot be shared evenly by 3 processes"),
        ({"train.steps": 500}, {}, "its checksum does not match|damaged"),
    ],
    ids=str,
)
def test_a_refused_change_is_not_written_down(run, changes, options, said):
    """Else the run could not go on without it."""
    if not options and "train.steps" in changes:
        (weights,) = run.checkpoints[-1].path.glob("model*")
        weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    before = tiny.files(run.path)
    refused(said, sublayer.resume, run.path, changes, **options)
    assert tiny.files(run.path) == before


# The text


def test_the_text_has_changed_or_is_gone(tmp_path, book):
    text = shutil.copy(book, tmp_path / "text.txt")
    run = tiny.train(text, tmp_path / "run", train__steps=1)
    before = tiny.files(run.path)
    text.write_text(tiny.TEXT.replace("naïve", "native"))
    said = r"run: the text is not the one this run began with \(.*text\.txt has changed\); put it back, or train a new"
    refused(said, sublayer.resume, run.path, {"train.steps": 2})
    text.unlink()
    refused(r"text\.txt: there is no such file", sublayer.resume, run.path)
    shutil.copy(book, text)
    assert sublayer.resume(run.path, quiet=True).checkpoints[-1].step == 2
    assert before.items() - tiny.files(run.path).items() <= {("run.json", before["run.json"])} | set(before.items())


def test_without_the_cache_it_is_made_again(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "new"))
    assert sublayer.resume(run.path, {"train.steps": 5}, quiet=True).checkpoints[-1].step == 5


# A full disk


@pytest.mark.parametrize("nth", [1, 3, 4, 5, 6, 8, 12, 17])
def test_a_full_disk_stops_it_and_it_goes_on_to_the_same_bits(whole, book, tmp_path, monkeypatch, nth):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        fill_disk(patch, nth)
        refused(r"cannot be written: No space left on device.* [Ff]ree some space there", train, book, out)
    assert [path for path in out.rglob("*") if path.name.endswith(".part")] == []
    for line in Run(out).metrics, Run(out).clock:
        assert line.size == 0 or line.path.read_bytes().endswith(b"\n")
    if (out / "run.json").exists():
        sublayer.resume(out, quiet=True)
    else:
        train(book, out)
    assert tiny.files(out) == tiny.files(whole.path)


def train(book, out):
    return tiny.train(book, out, "transformer-xl", **OFTEN)


def fill_disk(patch, nth):
    """The n-th write to a run, and all after it, arrive by half."""
    written = [0]

    class Full:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            written[0] += 1
            if written[0] < nth:
                return self.file.write(data)
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            raise OSError(errno.ENOSPC, "No space left on device")

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

    def full(path, mode="r", **kwargs):
        file = open(path, mode, **kwargs)  # noqa: SIM115 (whoever asked closes it)
        return Full(file) if mode in ("ab", "wb") else file

    patch.setattr("sublayer.files.atomic.open", full, raising=False)
    patch.setattr("sublayer.runs.lines.open", full, raising=False)
