"""Seven outsiders, one file each, go through the laws and every verb of the command line by `--plugin`."""

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sublayer.cli import main
from sublayer.nas import on_device
from sublayer.nn.config import Config
from sublayer.testing import check
from sublayer.testing.surroundings import DECODER
from tests.cli.test_search import Counted, race
from tests.training.tiny import TEXT

HERE = Path(__file__).parent
SMALL = ("dim=16", "layout=(sf)x2", "s.heads=2", "f.inner=32", "train.batch=2", "train.length=16", "train.warmup=1")


@dataclass(frozen=True)
class Outsider:
    plugin: str
    """The module's name, as `--plugin` takes it."""
    owner: str
    """The class in it."""
    keys: tuple[str, ...]
    """What puts it into a model or a training."""

    def config(self, **fields) -> Config:
        return getattr(importlib.import_module(self.plugin), self.owner).Config(**fields)


STACK = {"alphabet": DECODER["stack"]["alphabet"], "layout": "(sf)x2"}
OUTSIDERS = [
    Outsider("linear_kernel", "EluKernel", ("s.kernel=elu_kernel",)),
    Outsider("spaced_pattern", "Spaced", ("s.pattern=spaced",)),
    Outsider("two_level_memory", "TwoLevel", ("s.memory=two_level",)),
    Outsider("log_bias", "LogBias", ("position=log_bias",)),
    Outsider("shared_stack", "Twice", ("stack.kind=twice",)),
    Outsider("depth_residual", "Fading", ("residual=fading",)),
    Outsider("late_objective", "LateTokens", ("train.objective=late_tokens",)),
]


@pytest.fixture(scope="module", params=OUTSIDERS, ids=lambda one: one.plugin)
def outsider(request):
    sys.path.insert(0, str(HERE))
    yield request.param
    sys.path.remove(str(HERE))


@pytest.fixture(scope="module")
def folder(outsider, tmp_path_factory):
    """A folder with a text, and one run that all verbs share."""
    folder = tmp_path_factory.mktemp(outsider.plugin)
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBLAYER_CACHE", str(folder / "cache"))
        patch.setenv("PYTHONPATH", str(HERE), prepend=":")
        patch.setattr("sublayer.measurement.reading.Reading.disturbed", None)
        patch.chdir(folder)
        spoken("train", "gpt2", "--data", "book.txt", "--out", "run", *SMALL, *outsider.keys, "train.steps=2",
               "--plugin", outsider.plugin, "--quiet")  # fmt: skip
        yield folder


def spoken(*words: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 0, words


@pytest.fixture
def run(capsys, outsider, folder):
    """`run("eval", "run")` → what it printed."""

    def run(*words: str) -> str:
        capsys.readouterr()
        spoken(*words, "--plugin", outsider.plugin)
        return capsys.readouterr().out

    return run


def model_keys(outsider) -> tuple[str, ...]:
    return tuple(key for key in outsider.keys if not key.startswith("train."))


def test_the_laws_hold(outsider):
    config = outsider.config(**(STACK if outsider.plugin == "shared_stack" else {}))
    findings = check(config)
    assert findings["training"].holds
    if config.family != "objective":
        assert findings["generation"].holds
        assert findings["oracle"].holds
        assert findings["cost = count"].holds


def test_a_training_goes_on(run):
    lines = run("resume", "run", "train.steps=3").splitlines()
    assert json.loads(lines[0])["step"] == 3


def test_it_is_scored(run):
    assert json.loads(run("eval", "run", "--json"))


def test_it_writes(run):
    assert run("generate", "run", "--tokens", "5").strip("\n")


def test_it_is_shown(run, outsider):
    page = run("show", "gpt2", *(key for key in SMALL if not key.startswith("train.")), *model_keys(outsider))
    for key in model_keys(outsider):
        assert key.split("=")[1] in page


def test_it_is_measured(run, outsider):
    words = ("dim=16", "layout=(sf)x2", "s.heads=2", "f.inner=32", "vocab=64", *model_keys(outsider))
    (row,) = json.loads(run("measure", "gpt2", *words, "--length", "8", "--seconds", "0.02", "--json"))["models"]
    assert row["latency"] > 0


def test_it_is_compared_and_reported(run, outsider, folder):
    """What is trained by differs for no variant, so an objective is given to all."""
    other = " ".join(("gpt2", *model_keys(outsider)))
    training = (key for key in outsider.keys if key.startswith("train."))
    words = ("--data", "book.txt", "--tokens", "0.1k", "--no-measure", "--out", "c", *SMALL, *training)
    run("compare", "gpt2 s.bias=false", other, *words)
    assert (folder / "c" / "table.json").exists()
    run("report", "c", "run", "--out", "page.html", "--open", "no")
    assert "<!doctype html>" in (folder / "page.html").read_text(encoding="utf-8")[:20]


def test_it_is_searched(run, outsider, folder, monkeypatch):
    """On a device whose times are counted: `measure` above tries the processes that time models."""
    monkeypatch.setattr(on_device, "Predictor", Counted)
    monkeypatch.setattr(on_device, "race", race)
    space = ("gpt2", "layout=sf|(sf)x2", "dim=16", "f.inner=32|48", "s.heads=2", *model_keys(outsider))
    run("search", *space, "--data", "book.txt", "--out", "s", "--population", "5", "--iterations", "1")
    assert (folder / "s" / "front.json").exists()
