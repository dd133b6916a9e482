"""Checkpoints whose checksums fit, but whose contents no training wrote: refused in one line, before they are used."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

import sublayer
from sublayer.cli import main
from sublayer.runs import Run
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.optimizer import Optimizer, dump, load
from tests.training import tiny


@pytest.fixture(scope="module")
def made(book, tmp_path_factory):
    return tiny.train(book, tmp_path_factory.mktemp("made") / "run", "transformer-xl", train__steps=2)


@pytest.fixture
def run(made, tmp_path):
    return Run.open(shutil.copytree(made.path, tmp_path / "run"))


def rewrite(run, file, change):
    """The last checkpoint with other tensors in a file, and checksums to fit."""
    last = run.checkpoints[-1]
    names = [path.stem for path in last.path.glob("*.safetensors")]
    tensors = {name: load_file(last.path / f"{name}.safetensors") for name in names}
    change(tensors[file])
    run.save(last.step, last.notes, **tensors)


def renote(run, change):
    last = run.checkpoints[-1]
    tensors = {path.stem: load_file(path) for path in last.path.glob("*.safetensors")}
    notes = last.notes
    change(notes)
    run.save(last.step, notes, **tensors)


def refused(pattern, call, *args, **kwargs):
    with pytest.raises(ValueError, match=pattern) as error:
        call(*args, **kwargs)
    assert "\n" not in str(error.value)


def resume(run):
    return sublayer.resume(run.path, {"train.steps": 3}, quiet=True)


def first(tensors, ending=""):
    return next(name for name in sorted(tensors) if name.endswith(ending) and tensors[name].dim() == 2)


WRONG = {
    "shorter": (lambda x: x[:1].clone(), "is 1×.* of float32, expected .*×.* of float32"),
    "longer": (lambda x: x.repeat(9, 9), "expected .*×.* of float32"),
    "scalar": (lambda x: x.sum(), "is a single number of float32, expected"),
    "double": (lambda x: x.double(), "of float64, expected .* of float32"),
}


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("file", ["model", "optimizer"])
def test_a_tensor_of_another_shape_or_type(run, file, how):
    change, said = WRONG[how]

    def spoil(tensors):
        name = first(tensors)
        tensors[name] = change(tensors[name]).contiguous()

    rewrite(run, file, spoil)
    what = {"model": "its weights are not those of the model", "optimizer": "its optimiser state is not that"}[file]
    refused(f"{what}.*{said}.*; use the version of Sublayer", resume, run)


@pytest.mark.parametrize("file", ["model", "optimizer"])
def test_a_tensor_missing_or_extra(run, file):
    rewrite(run, file, lambda tensors: tensors.update(more=torch.ones(2)))
    refused(r"\(more (is not in it|belongs to none of its parameters)\); use the version", resume, run)
    rewrite(run, file, lambda tensors: [tensors.pop(name) for name in ("more", first(tensors))])
    refused(r"\([\w.:]+ is missing\); use the version", resume, run)


def test_an_optimiser_without_a_state(run):
    rewrite(run, "optimizer", lambda tensors: tensors.clear())
    refused("its optimiser state is not that of the model .there is none after the first step", resume, run)


def test_loading_checks_weights_too(run, capsys):
    rewrite(run, "model", lambda tensors: tensors.pop(first(tensors)))
    refused("its weights are not those of the model .* is missing", sublayer.load, run.path)
    for verb in (["eval", str(run.path)], ["generate", str(run.path)], ["resume", str(run.path), "train.steps=3"]):
        with pytest.raises(SystemExit) as ended:
            main(verb)
        assert ended.value.code == 2
        assert "Traceback" not in capsys.readouterr().err


def test_averaged_weights_are_checked(book, tmp_path):
    run = tiny.train(book, tmp_path / "run", train__steps=1, train__average=1)
    last = run.checkpoints[-1]
    average = last.tensors("average")
    last.add("average", {name: x[:1].clone() for name, x in average.items()})
    refused("its weights are not those of the model", sublayer.load, run.path)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[:1].clone(),
        lambda x: x[..., :3].clone(),
        lambda x: x.double(),
        lambda x: x.sum(),
        lambda x: x.transpose(0, 1).contiguous(),
    ],
    ids=["fewer rows", "narrower", "double", "scalar", "turned"],
)
def test_a_carried_state_of_another_shape(run, change):
    rewrite(run, "carried", lambda tensors: tensors.update({k: change(v) for k, v in tensors.items() if v.dim() == 3}))
    refused("its carried state does not fit the model: carried state, .*; use another checkpoint", resume, run)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda notes: notes.pop("progress"), "progress is null in its notes, expected a table of"),
        (lambda notes: notes.update(progress=[1]), r"progress is \[1\] in its notes"),
        (lambda notes: notes["progress"].update(step="two"), 'progress.step is "two" in its notes, expected a number'),
        (lambda notes: notes["progress"].update(tokens=-3), "progress.tokens is -3"),
        (lambda notes: notes["progress"].update(best="good"), 'progress.best is "good" in its notes'),
        (lambda notes: notes["progress"].update(more=1), "progress is .* expected a table of"),
        (lambda notes: notes.update(cursor=7), "cursor is 7 in its notes, expected a table"),
        (lambda notes: notes["cursor"].update(passes=[1]), r"cursor.passes is \[1\] in its notes"),
        (lambda notes: notes["cursor"].update(passes=-1), "cursor.passes is -1"),
        (lambda notes: notes["cursor"].pop("passes"), "cursor: .* is not one of these batches .KeyError"),
        (lambda notes: notes.update(metrics="all"), 'metrics is "all" in its notes, expected a number of bytes'),
        (lambda notes: notes.update(carried=[]), r"carried is \[\] in its notes, expected a table"),
        (lambda notes: notes["carried"].update(parts={"value": 3}), "its carried state does not fit the model"),
        (lambda notes: notes["carried"].update(parts={"tensor": "gone"}), "its carried state does not fit the model"),
        (lambda notes: notes["carried"].update(other={"value": 1}), "its carried state does not fit the model"),
    ],
)
def test_notes_of_wrong_types(run, change, said):
    renote(run, change)
    refused(said, resume, run)


@pytest.mark.parametrize("contents", [{}, {"notes": {}, "files": {}}, {"format": 2}, {"format": [1]}, {"format": 1}])
def test_a_checkpoint_without_what_it_needs(run, contents):
    from sublayer.runs import checkpoint

    (run.checkpoints[-1].path / checkpoint.NOTES).write_bytes(checkpoint._sealed(contents))
    refused("format .* this version reads 1|it lacks notes, or the names of files", resume, run)


def test_files_outside_the_checkpoint_are_not_read(run):
    from sublayer.runs import checkpoint

    contents = {"format": 1, "notes": {}, "files": {"../../run.json.safetensors": "0"}}
    (run.checkpoints[-1].path / checkpoint.NOTES).write_bytes(checkpoint._sealed(contents))
    refused("it lacks notes, or the names of files with their checksums", resume, run)


@pytest.mark.parametrize("kind", ["adamw", "adam", "lamb", "sgd", {"kind": "sgd", "momentum": 0}], ids=str)
def test_what_an_optimiser_wrote_is_taken(kind):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    optimizer = Optimizer.Config.parse(kind).build(model.parameters(), 0.1)
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    other = Optimizer.Config.parse(kind).build(model.parameters(), 0.1)
    load(other, model, dump(optimizer, model), World("cpu"), stepped=True)
    for name, value in dump(optimizer, model).items():
        assert torch.equal(value, dump(other, model)[name])


# Nested deeply

DEEP = "[" * 50_000 + "]" * 50_000


def test_run_json_nested_deeply(run, capsys):
    asked = (run.path / "run.json").read_text()
    for text in (DEEP, '{"format": 1, "model": ' + DEEP + "}", '{"a":' * 500 + "1" + "}" * 500, "[1]", "null"):
        (run.path / "run.json").write_text(text)
        refused(r"run\.json: (cannot be read: .*|not an object of JSON); it was damaged", Run.open, run.path)
    (run.path / "run.json").write_text(asked)
    (run.path / "environment.json").write_text(DEEP)
    refused(r"environment\.json: cannot be read: it is nested too deeply", resume, run)


@pytest.mark.parametrize("name", ["model", "data", "train", "text"])
def test_run_json_with_another_type(run, name):
    run.ask({**run.asked, name: 5})
    refused(rf"run\.json: {name} is 5, expected a (table|hash); it was damaged or edited", Run.open, run.path)


def test_metrics_nested_deeply(run):
    (run.path / "metrics.jsonl").write_text(DEEP + "\n")
    refused(r"metrics\.jsonl: expected lines of JSON", lambda: list(run.metrics))


def test_a_damaged_neighbour_hides_no_run(run, capsys):
    """Whatever is in its files."""
    for n, (file, text) in enumerate(
        [
            ("run.json", DEEP),
            ("run.json", "[]"),
            ("metrics.jsonl", '{"step": [], "tokens": {}, "loss": "low"}\n'),
            ("metrics.jsonl", DEEP + "\n"),
            ("clock.jsonl", '{"seconds": "many"}\n'),
        ]
    ):
        other = shutil.copytree(run.path, run.path.parent / f"other{n}")
        (other / file).write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["runs", str(run.path.parent), "--json"])
    assert ended.value.code in (0, None)
    rows = json.loads(capsys.readouterr().out)
    whole = [row for row in rows if "error" not in row]
    assert [row["run"].split("/")[-1] for row in whole] == ["other2", "run"]
    assert all(row["run"] in row["error"] and "\n" not in row["error"] for row in rows if "error" in row)


def test_absurd_counts_are_bounded():
    for name in ("accumulate", "steps", "tokens", "keep", "average", "warmup", "log_every", "eval_tokens", "grow_over"):
        with pytest.raises(ValueError, match=f"{name}: input should be less than or equal to"):
            TrainConfig().but({name: 10**20})
