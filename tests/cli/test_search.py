"""`sublayer search`: what is typed, what is shown, what is refused; with a device whose times are counted."""

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from sublayer.nas import Choice, on_device
from sublayer.nn.layout import par, sandwich
from sublayer.runs import Run
from tests.nas import little
from tests.training.tiny import TEXT

SPACE = ("gpt2", "layout=sf|sff|(sf)x2", "dim=16..64/16", "f.inner=each(32..128/32)", "s.heads=2", "f.inner>dim")
FEW = ("--population", "10", "--iterations", "2")
FEWEST = ("--population", "5", "--iterations", "0")


class Counted:
    """A predictor that counts instead of measuring."""

    def __init__(self, setting, **how):
        self.setting, self.table = setting, SimpleNamespace(device={"processor": "counted", "id": "0"})

    def close(self):
        pass

    def learn(self, configs, told):
        told(0, len(configs))

    def calibrate(self, configs, told):
        assert configs

    def predict(self, config):
        return SimpleNamespace(**little.evaluate(config))

    read = predict
    disturbed = None

    def relearn(self, told):
        pass

    def knows(self, configs):
        return True

    def forget(self):
        return 0


def race(configs, setting, **how):
    found = [little.evaluate(config) for config in configs]
    slower = [{**one, "latency": 1.25 * one["latency"]} for one in found]
    readings = [
        SimpleNamespace(**one, low=one["latency"], high=one["latency"], raw=one["latency"], disturbed=None)
        for one in slower
    ]
    return SimpleNamespace(readings=readings, disturbed=None)


@pytest.fixture(autouse=True)
def device(tmp_path, monkeypatch):
    monkeypatch.setattr(on_device, "Predictor", Counted)
    monkeypatch.setattr(on_device, "race", race)
    monkeypatch.setattr(on_device, "LEARNED", 4)  # nothing is learned by counting
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")


def test_a_search_with_its_winners_trained(run, tmp_path):
    words = ("search", *SPACE, "--data", "book.txt", "--out", "s", "--latency-max", "10ms", "--memory-max", "2MB", *FEW)
    said = run(*words)
    assert re.search(r"s \d+ models on the front of \d+ within the limits, 26 tried; hypervolume 0\.\d+", said)
    assert "the same command with --train 3 trains the best" in said
    assert re.search(r"20\.0 % in latency", said)
    small = ("train.steps=1", "train.batch=2", "train.length=16")
    result = json.loads(run(*words, "--train", "2", *small, "--json"))
    assert result == json.loads((tmp_path / "s" / "front.json").read_text())
    assert result["setting"]["length"] == 64
    assert result["device"]["id"] == "0"
    trained = [one for one in result["front"] if one["run"]]
    assert len(trained) == 2
    within = [one for one in result["front"] if not one["measured"] or one["measured"]["latency"] <= 0.01]
    best = sorted((one["values"]["decoder_params"] for one in within), reverse=True)[:2]
    assert sorted((one["values"]["decoder_params"] for one in trained), reverse=True) == best
    for one in trained:
        made = Run.open(tmp_path / "s" / one["run"])
        assert made.model_config.dump() == one["config"]
        assert made.model_config.vocab == 256
        assert made.checkpoints[-1].step == 1


def test_a_model_of_the_front_is_found_and_evaluated_from_another_folder(run, tmp_path, monkeypatch):
    """The text was named by a relative path."""
    words = ("search", *SPACE, "--data", "book.txt", "--out", "s", *FEW, "--train", "1", "--json")
    result = json.loads(run(*words, "train.steps=1", "train.batch=2", "train.length=16"))
    (trained,) = [one["run"] for one in result["front"] if one["run"]]
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    score = json.loads(run("eval", f"../s/{trained}", "--split", "valid", "--json"))
    assert score


def test_a_budget_is_the_limit_and_what_exceeds_it_is_named(run, tmp_path):
    words = ("search", *SPACE, "vocab=64", "--out", "s", *FEWEST)
    (tmp_path / "budget.json").write_text(json.dumps(little.space().base.but(dim=32, layout="sf").dump()))
    result = json.loads(run(*words, "--budget", "budget.json", "--json"))
    assert result["limits"] == {"latency": result["budget"]["measured"]["latency"]}
    assert all(one["within"] for one in result["front"] if one["measured"])
    fastest = min(one["values"]["latency"] for one in result["front"])
    said = run("search", *SPACE, "vocab=64", "--out", "t", *FEWEST, "--latency-max", f"{1.1 * fastest}s", "--remeasure")
    above = r"models? (is|are) above the limits as measured \(latency up to [\d.]+ [mµ]s\): \d+"
    assert re.search(above, " ".join(said.split()))


def test_a_picked_model_and_the_command_that_trains_it(run, show, refuse):
    words = ("search", *SPACE, "--data", "book.txt", "--out", "s", *FEWEST)
    said = run(*words, "--pick", "fastest")
    name, command = re.search(r"^fastest  (s#\d+)  ", said, re.MULTILINE)[1], said.splitlines()[-1]
    assert re.search(r"latency [\d.]+ .s predicted, latency [\d.]+ .s measured", " ".join(said.split()))
    assert shlex.split(command) == ["sublayer", "train", name, "--data", "book.txt"]
    assert json.loads(run(*words, "--pick", "fastest", "--json"))["pick"] == {"by": "fastest", "name": name}
    assert 'Choose from: "best", "fastest", "knee"' in refuse(*words, "--pick", "slowest")

    run(*shlex.split(command)[1:], "train.steps=1", "train.batch=2", "train.length=16", "--quiet")
    made = Run.open(f"runs/{name.replace('#', '-')}")
    shown = show("s#fastest")
    assert shown["name"] == name
    assert ("latency", "measured") in {(one["name"], one["source"]) for one in shown["figures"]}
    assert made.request.origin == name
    assert made.model_config.dump() == shown["config"]
    assert show(str(made.path))["origin"] == name
    assert show(str(made.path))["config"] == shown["config"]
    page = " ".join(run("show", str(made.path)).split())
    assert f"trained from {name}" in page
    assert f"{made.model_config.cost().params:,}" in page
    assert "name one by its trial" in refuse("train", "s/front.json", "--data", "book.txt")
    assert "name one by its trial" in refuse("train", "s", "--data", "book.txt")
    assert not Path("runs/front").exists()


def test_figures_are_predicted_or_measured(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    said = run("search", *SPACE, "--out", "s", "--objectives", "decoder_params,latency", *FEWEST).splitlines()
    assert said[1].split() == ["decoder", "latency,", "latency,"]
    assert said[2].split() == ["trial", "layout", "dim", "params", "predicted", "measured", "params"]
    assert json.loads(Path("s/front.json").read_text())["sources"]["latency"] == "predicted"


@pytest.mark.parametrize(
    ("words", "layouts"),
    [
        (["layout=(sf)x4", "layout=par(3)|par(4)"], {par("(sf)x4", 3), par("(sf)x4", 4)}),
        (["layout=(sf)x2|(sf)x4", "layout=par(4)"], {par("(sf)x2", 4), par("(sf)x4", 4)}),
        (["layout=(sf)x4", "layout=(sf)x4|par(4)"], {"(sf)x4", par("(sf)x4", 4)}),
        (["layout=sandwich(2,8)|par(4,12)"], {sandwich("(sf)x4", 2), par("(sf)x6", 4)}),
    ],
)
def test_layout_rules_stand_on_the_layout_before_them(run, words, layouts):
    small = ("dim=16|32", "s.heads=2", "vocab=50", "--objectives", "params,flops", *FEWEST)
    run("search", "gpt2", *words, *small, "--out", "s", "--json")
    space = json.loads(Path("s/search.json").read_text())["space"]
    assert set(Choice.parse(space["choices"]["layout"]).values) == layouts


def test_objectives_and_methods(run):
    words = ("search", *SPACE, "--objectives", "params,flops:max", "--method", "random", *FEW, "--json", "vocab=50")
    result = json.loads(run(*words))
    assert [one["direction"] for one in result["objectives"]] == ["minimize", "maximize"]
    assert result["device"] is None
    assert all(one["measured"] is None and one["config"]["vocab"] == 50 for one in result["front"])
    assert result == json.loads(Path("searches/gpt2/front.json").read_text())


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["gtp2"], r"unknown paper 'gtp2'; did you mean gpt2"),
        (["gpt2"], r"the space is empty: nothing is to be chosen; write for example dim=128\.\.512/64"),
        (["gpt2", "dim=64|"], r"dim: choice '64\|' has an empty value"),
        (
            ["gpt2", "dim=50|51"],
            r"the space is empty: nothing that is chosen goes with what is fixed; the first: .*heads=12",
        ),
        (["gpt2", "dmi=50|51"], r"unknown key 'dmi'; did you mean dim"),
        ([*SPACE, "--latency-max", "5"], r"latency_max=5: expected a time in s, ms or us"),
        (
            [*SPACE, "--latency-max", "1us", "--out", "s"],
            r"no candidate has latency up to 1 µs: of \d+ tried, the nearest",
        ),
        ([*SPACE, "--params-max", "10"], r"params_max=10: the smallest candidate of the space has [\d.]+ k"),
        ([*SPACE, "--objectives", "latency"], r"objectives=latency: expected two or three different figures"),
        ([*SPACE, "--method", "grid"], r"unknown method 'grid'"),
        ([*SPACE, "--task", "writing"], r"task: "),
        ([*SPACE, "--train", "3"], r"train=3: there is no text to train on; add --data FILE"),
        ([*SPACE, "train.stpes=3", "--train", "1", "--data", "stdlib"], r"unknown key 'train\.stpes'"),
        ([*SPACE, "--population", "2"], r"population=2"),
        ([*SPACE, "--train", "100000000000000000000", "--data", "stdlib"], r"train=1000+: expected the number of"),
        ([*SPACE, "train.steps=3"], r"train\.steps: nothing is trained; add --train 3, or leave it out"),
        ([*SPACE, "data.tokenizer=char"], r"data\.tokenizer: there is no text; add --data FILE"),
        (
            [*SPACE, "--objectives", "nonsense,latency"],
            r"unknown objective 'nonsense'; expected one of params, decoder_params, flops, latency, memory,",
        ),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else "",
)
def test_refusals_in_one_line(refuse, words, answer):
    few = () if "--population" in words else FEW
    assert re.search(answer, refuse("search", *words, *few, "vocab=64"))
