"""`sublayer show`: published counts to the last digit, files as names, diffs, plug-ins."""

import json

import pytest
import tomli_w

import sublayer
from sublayer.nn.layout import par, sandwich

LITE = ["dim=512", "layout=(sf)x2", "s.heads=8,8", "f.inner=1216,1280"]
UNEVEN = ["dim=256", "layout=(sf)x3", "s.heads=2,2,2", "f.inner=3072,3776,3904", "vocab=50264"]


@pytest.mark.parametrize(
    ("words", "decoder_params"),
    [(["transformer-xl", *LITE], 5_187_008), (["gpt2", *UNEVEN], 6_309_632)],
    ids=["transformer-xl", "gpt2"],
)
def test_a_varied_stack_has_the_published_decoder_parameters(show, words, decoder_params):
    assert show(*words)["cost"]["decoder_params"] == decoder_params


def test_opt_350m(show):
    cost = show("opt-350m")["cost"]
    assert cost["decoder_params"] == 302_309_376
    assert cost["decoder_params"] + cost["positions"] == 304_408_576
    assert cost["params"] == 331_196_416


@pytest.mark.parametrize(
    ("paper", "params", "flops", "kept"),
    [("transformer-xl-base", 191_950_298, 26.6, 8.7), ("par-base", 199_840_218, 16.2, 8.6)],
)
def test_transformer_xl_and_par(show, paper, params, flops, kept):
    cost = show(paper, "--length", "64", "--memory", "640")["cost"]
    assert cost["params"] == params
    assert round(cost["flops"]["total"] / 1e9, 1) == flops
    assert round(cost["flops"]["frozen_stack"] / 1e9, 1) == kept


@pytest.mark.parametrize("paper", sublayer.names())
def test_every_paper_is_shown(run, show, paper):
    page, data = run("show", paper), show(paper)
    assert page.startswith(paper)
    for text in (data["cite"], data["about"], f"{data['cost']['params']:,}"):
        assert " ".join(text.split()) in " ".join(page.split())
    assert bool(data["diff"]) == (data["parent"] is not None)
    assert (
        sum(data["cost"][where] for where in ("tokens", "positions", "stack", "final_norm", "head"))
        == (data["cost"]["params"])
    )


@pytest.mark.parametrize(
    ("words", "layout"),
    [
        (["layout=(sf)x6", "layout=par(5)"], par("(sf)x6", 5)),
        (["layout=par(5,12)"], par("(sf)x6", 5)),
        (["layout=sandwich(2,12)"], sandwich("(sf)x6", 2)),
        (["layout=sandwich(2)", "layout=par(5)"], par("(sf)x12", 5)),
        (["layout=par(5)"], par("(sf)x12", 5)),
    ],
    ids=" ".join,
)
def test_a_layout_rule_stands_on_the_layout_before_it(show, words, layout):
    assert show("gpt2", *words)["config"]["stack"]["layout"] == layout


@pytest.mark.parametrize("ending", ["json", "toml"])
@pytest.mark.parametrize("words", [["gpt2", *UNEVEN], ["par-base"], ["transformer"], ["bert-base"]], ids=lambda w: w[0])
def test_what_show_prints_can_stand_for_a_name(show, tmp_path, words, ending):
    before = show(*words)
    file = tmp_path / f"mine.{ending}"
    config = before["config"]
    file.write_text(json.dumps(config) if ending == "json" else tomli_w.dumps(without_none(config)), encoding="utf-8")
    after = show(str(file))
    assert after["config"] == config
    assert (after["hash"], after["cost"]) == (before["hash"], before["cost"])
    assert after["cite"] is None
    assert show(str(file), "vocab=300000")["config"]["vocab"] == 300_000


def without_none(data):
    return {k: without_none(v) for k, v in data.items() if v is not None} if isinstance(data, dict) else data


def test_the_diff_is_against_the_parent_unless_another_is_named(run, show, tmp_path):
    assert show("par-base")["diff"] == {"stack.layout": ["(sf)x16", "(sfff)x6 (f)x8"]}
    assert show("par-base", "--diff", "par-base")["diff"] == {}
    data = show("par-base", "--diff", "sandwich-base")
    assert (data["parent"], data["against"]) == ("transformer-xl-base", "sandwich-base")
    assert data["diff"] == {"stack.layout": ["(s)x6 (sf)x10 (f)x6", "(sfff)x6 (f)x8"]}
    file = tmp_path / "base.json"
    file.write_text(json.dumps(show("transformer-xl-base")["config"]), encoding="utf-8")
    assert show("par-base", "--diff", str(file))["diff"] == show("par-base")["diff"]
    assert "against sandwich-base" in run("show", "par-base", "--diff", "sandwich-base")


def test_overrides_reach_inside(show):
    stack = show("gpt2", "layout=par(5)", "position=rotary", "s.pattern.size=16", "s.pattern=window")["config"]["stack"]
    assert stack["layout"] == "(sff)x5 (f)x9"
    assert stack["position"] == {"kind": "rotary", "base": 10000.0}
    decoder = show("transformer", "decoder.s.heads=4", "encoder.layout=(sf)x2")["config"]["decoder"]
    assert decoder["alphabet"]["s"]["heads"] == 4


def test_a_later_override_sees_the_earlier_one(show):
    stack = show("gpt2", "s.pattern=window", "s.pattern.size=16", 'f={"kind": "glu"}', "f.inner=64")["config"]["stack"]
    assert stack["alphabet"]["s"]["pattern"] == {"kind": "window", "size": 16, "look": "back"}
    assert stack["alphabet"]["f"]["inner"] == 64


def test_lengths_of_the_pass(show):
    short, long = (show("gpt2", "--length", length)["cost"]["flops"] for length in ("1", "128"))
    assert (short["length"], long["length"]) == (1, 128)
    assert long["total"] > 128 * short["total"]
    assert show("gpt2", "--memory", "100")["cost"]["flops"]["memory"] == 100


PLUGIN = '''
from torch import nn
from sublayer.nn.part import Part
from sublayer.papers.registry import paper

class Scaled(Part):
    """W x."""
    class Config(Part.Config, tag="scaled"):
        def params(self, place): return place.dim**2
        def flops(self, place, work): return 2 * work.length * place.dim**2
    def __init__(self, config, place):
        super().__init__()
        self.output = nn.Linear(place.dim, place.dim, bias=False)
    def forward(self, x_BLD, scene, state=None):
        return self.output(x_BLD), None

@paper("scaled-gpt2", parent="gpt2", cite="Nobody 2000")
def scaled_gpt2(base):
    """GPT-2 with one matrix for a feed-forward."""
    return base.but({"f": "scaled"})
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A folder with a plug-in in it, as the current one; forgotten afterwards."""
    from sublayer.nn.part import Part
    from sublayer.papers import registry

    (tmp_path / "scaled_parts.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    yield "scaled_parts"
    Part.Config.registry.pop("scaled", None)
    registry.PAPERS.pop("scaled-gpt2", None)
    registry.config.cache_clear()


def test_a_plugin_brings_parts_and_papers(run, show, refuse, plugin):
    assert "scaled" in refuse("show", "gpt2", "f=scaled")
    data = show("gpt2", "--plugin", plugin, "f=scaled")
    assert data["config"]["stack"]["alphabet"]["f"] == {"kind": "scaled"}
    assert data["cost"]["stack"] == 12 * (4 * 768**2 + 4 * 768 + 768**2 + 4 * 768)
    assert "└─ scaled-gpt2" in run("list", "gpt2", "--plugin", plugin)
    assert show("scaled-gpt2", "--plugin", plugin)["hash"] == data["hash"]


def test_the_path_of_each_sublayer_and_why_not_a_faster_one(run, show):
    rows = {row["of"]: row for row in show("gpt2", "layout=(sf)x2", 's.pattern={"kind": "window", "size": 8}')["paths"]}
    attention = rows["multihead"]
    assert attention["count"] == rows["dense"]["count"] == 2
    assert attention["training"]["path"] == "C attention"
    assert attention["generation"] is None  # one step does all that the model does
    assert "C" in rows["model"]["generation"]["path"]
    gated = {row["of"]: row for row in show("gpt2", "layout=(sf)x2", "residual.add=gru_gate")["paths"]}
    assert "GruGate" in str(gated["model"]["generation"]["why_not"])
    assert gated["multihead"]["generation"]["path"] == "PyTorch's attention"
    page = run("show", "gpt2", "layout=(sf)x2")
    assert "not faster, because" in page
    assert "multihead ×2" in page
