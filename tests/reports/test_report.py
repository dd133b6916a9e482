"""One page from folders alone: whole, self-contained, the same for the same folders, and safe from what they say."""

import json
import re
import shlex
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sublayer import reports
from sublayer.runs import sealed_json
from tests.reports import made
from tests.training import tiny

NASTY = '</script><script>alert("x")</script><img src="http://example.org/x" onerror="alert(1)">'


@pytest.fixture(scope="module")
def run(book, tmp_path_factory):
    """A real one."""
    return tiny.train(book, tmp_path_factory.mktemp("real") / "small", train__steps=6, train__log_every=1).path


@pytest.fixture(scope="module")
def everything(run, tmp_path_factory):
    """One folder of each kind."""
    root = tmp_path_factory.mktemp("all")
    made.search(root / "search")
    front = json.loads((root / "search" / "front.json").read_text())
    for number, name in enumerate(("one", "two")):
        front["front"][number]["run"] = f"runs/{name}"
        shutil.copytree(run, root / "search" / "runs" / name)
    made.write(root / "search" / "front.json", front)
    made.compare(root / "compare")
    shutil.copytree(run, root / "compare" / "runs" / "par-0")
    made.reproduction(root / "reproduction")
    made.supernet(root / "supernet")
    made.proxies(root / "proxies")
    shutil.copytree(run, root / "alone")
    return root


@pytest.fixture(scope="module")
def page(everything, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    return reports.report([everything], path), path.read_text(encoding="utf-8")


class Read(HTMLParser):
    """Elements with their attributes, and what is in scripts."""

    VOID = ("meta", "br", "hr", "wbr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.scripts: dict[str | None, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            name = self.found[-1][1].get("id")
            self.scripts[name] = self.scripts.get(name, "") + data
        elif self.open and self.open[-1] != "style":
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def test_what_is_in_it(page):
    told, text = page
    read = Read(text)
    assert [title.split()[0] for title in told.sections] == [
        "Comparison",
        "Proxies",
        "Reproduction",
        "Search",
        "Supernet",
        "Run",
    ]
    assert told.problems == []
    assert told.size == len(text.encode()) < 1_500_000
    assert not read.open
    charts = [one for one in read.all("div") if one.get("class") == "chart"]
    assert len(charts) == told.charts > 12
    assert all(one["role"] == "img" and one["aria-label"] for one in charts)
    shared = json.loads(read.scripts["datasets"])
    for one in charts:
        spec = json.loads(read.scripts[one["data-spec"]])
        assert spec["width"] == "container"
        assert set(spec["datasets"]) <= shared.keys()
    assert {"viewport", "generator"} <= {one.get("name") for one in read.all("meta")}
    said = (
        "120 models tried",
        "off by",
        "par has the lowest validation loss",
        "ranks 24 trained models",
        "Of 1 thing that the paper finds, 1 came out the same way here, 1 of them clearly (3 seeds each).",
        "97.0 ± 3.0",
        "1 minute of training in all. Changed: dim=8.",
        "sublayer reproduce feedback/random-walk dim=8 --seeds 3",
        "over 16 slots",
    )
    assert [words for words in said if words not in read.text] == []


def test_nothing_is_fetched(page):
    """Whatever the files say: a policy forbids it, and nothing in the page asks for it."""
    _, text = page
    read = Read(text)
    policy = next(one["content"] for one in read.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "eval" not in policy
    for tag, attributes in read.found:
        assert tag not in ("link", "img", "iframe", "object", "base", "form")
        assert not any(name.startswith("on") or name in ("src", "srcset", "action") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"url\(|@import", text.split("</style>")[0])


def test_the_policy_names_the_scripts(page):
    """A browser runs a script only if its hash is the policy's."""
    import hashlib
    from base64 import b64encode

    _, text = page
    for script in re.findall(r"<script>(.*?)</script>", text, re.DOTALL):
        assert f"sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}" in text.split("<style>")[0]


def test_the_same_folders_give_the_same_bytes(page, everything, tmp_path):
    again = reports.report([everything], tmp_path / "again.html")
    assert again.path.read_text(encoding="utf-8") == page[1]


def test_names_cannot_break_out(tmp_path, run):
    """Layouts, names, verdicts and configs are somebody else's text."""
    rows = [made.row(NASTY, NASTY, 1.4), made.row("plain", "(sf)x2", 1.5, config={"stack": {"layout": NASTY}})]
    made.compare(tmp_path / "compare", rows, device={NASTY: NASTY}, baseline=NASTY, how=NASTY)
    made.search(tmp_path / "search", objectives=2, trials=0)
    front = json.loads((tmp_path / "search" / "front.json").read_text())
    front["objectives"][0]["name"] = NASTY
    for one in front["front"]:
        one["layout"] = NASTY
        one["values"][NASTY] = one["values"]["decoder_params"]
    made.write(tmp_path / "search" / "front.json", front)
    shutil.copytree(run, tmp_path / "runs" / "</script><script>alert(1)<".replace("/", "∕"))
    told = reports.report([tmp_path], tmp_path / "report.html", svg=tmp_path / "svg", sample=0)
    read = Read(told.path.read_text(encoding="utf-8"))
    assert NASTY in read.text
    assert len(read.all("script")) == told.charts + 3
    assert read.all("img") == []
    assert not read.open
    assert all("<script" not in path.read_text() for path in told.pictures)
    assert all(re.fullmatch(r"[a-z0-9-]+\.svg", path.name) for path in told.pictures)


def test_a_run_tells_its_curve_and_writes(page, run, tmp_path):
    told = reports.report(run, tmp_path / "report.html", sample=8)
    read = Read(told.path.read_text(encoding="utf-8"))
    assert told.charts == 2
    assert "Samples" in read.text
    assert "No sample" not in read.text
    assert "train.steps=6" in read.text
    charts = reports.figures(run)
    assert list(charts) == ["loss-tokens", "loss-seconds"]
    (rows,) = charts["loss-tokens"].to_dict()["datasets"].values()
    losses = [row["y"] for row in rows if row["kind"] == "training"]
    assert losses == [float(f"{one:.6g}") for one in tiny.losses(_opened(run))]


def test_a_model_that_cannot_write_says_why(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    reports.report(tmp_path / "run", tmp_path / "report.html")
    assert "No sample: " in Read((tmp_path / "report.html").read_text(encoding="utf-8")).text


def test_predicted_beside_measured(everything, page):
    charts = reports.figures(everything / "search")
    assert {
        "front-decoder-params-latency",
        "predicted-latency",
        "hypervolume",
        "trained",
        "loss-tokens",
    } <= charts.keys()
    read = Read(page[1])
    assert "latency, predicted (ms)" in read.text
    front = json.loads((everything / "search" / "front.json").read_text())["front"]
    one = next(one for one in front if one["measured"])
    off = 100 * (one["values"]["latency"] / one["measured"]["latency"] - 1)
    assert f"{off:+.1f}\u00a0%".replace("-", "−") in read.text


def test_all_trials_of_the_journal(everything):
    spec = reports.figures(everything / "search")["front-decoder-params-latency"].to_dict()
    front = json.loads((everything / "search" / "front.json").read_text())["front"]
    others = set(range(120)) - {one["number"] for one in front}
    assert {row["number"] for row in max(spec["datasets"].values(), key=len)} == others


@pytest.mark.parametrize("front", [[], [made.member(1, 2, measured=False)]])
def test_a_search_with_hardly_a_front(tmp_path, front):
    path = made.search(
        tmp_path / "search", trials=0, front=front, hypervolumes=[], device=None, setting=None, predictor=None
    )
    assert reports.report(path, tmp_path / "report.html").sections


def test_figures_that_are_none(tmp_path):
    """Diverged variants, models without a score, proxies without an order."""
    nothing = {"mean": None, "low": None, "high": None, "losses": [None], "latency": None, "bits_per_byte": None}
    made.compare(
        tmp_path / "compare", [made.row("lost", "sf", 1.0, **nothing), made.row("kept", "sf", 1.0, low=None, high=None)]
    )
    points = [{"seed": 0, "word": "---", "layout": None, "attention": 0, "perplexity": None}]
    made.supernet(tmp_path / "supernet", base=None, figure2={"points": points}, figure4={"points": []})
    made.proxies(tmp_path / "proxies", sets=[{"set": "few", "models": 3, "proxies": []}])
    base = {"layout": "sf", "attention": 1, "seeds": [0], "perplexities": [None], "mean": None, "std": None}
    made.supernet(tmp_path / "lost", base=base, diverged={"base-0": "step 3: the loss is nan"})
    told = reports.report(tmp_path, tmp_path / "report.html")
    assert (len(told.sections), told.problems) == (4, [])
    assert "base-0 diverged: step 3: the loss is nan" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_pictures(everything, tmp_path):
    told = reports.report(
        everything / "compare", tmp_path / "r.html", png=tmp_path / "png", svg=tmp_path / "svg", sample=0
    )
    assert len(told.pictures) == 2 * (told.charts + 1)
    for path in told.pictures:
        assert path.read_bytes().startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg")


def test_one_that_is_damaged_does_not_hide_the_others(everything, tmp_path):
    shutil.copytree(everything, tmp_path / "all")
    (tmp_path / "all" / "search" / "front.json").write_text("{")
    (tmp_path / "all" / "supernet" / "figures.json").write_text('{"figure2": 3}')
    (tmp_path / "all" / "reproduction" / "claim.json").write_text('{"claim": 3}')
    (tmp_path / "all" / "search" / "journal.log").write_text("x\n")
    told = reports.report(tmp_path / "all", tmp_path / "report.html", sample=0)
    assert [title.split()[0] for title in told.sections] == ["Comparison", "Proxies", "Run"]
    assert len(told.problems) == 3
    assert all("damaged or edited" in problem and "\n" not in problem for problem in told.problems)
    assert "Not read: " in told.path.read_text(encoding="utf-8")


def test_a_damaged_journal_costs_its_dots_alone(tmp_path):
    path = made.search(tmp_path / "search")
    (path / "journal.log").write_text('{"op_code": 99}\nnonsense\n')
    assert reports.report(path, tmp_path / "report.html").problems == []


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: None, "there is no such folder"),
        (lambda path: path.write_text("x"), "not a folder"),
        (lambda path: path.mkdir(), "nothing to report in it"),
        (lambda path: made.write(path / "run.json", {}), "damaged or edited"),
        (lambda path: made.write(path / "front.json", {"front": []}), "objectives: Field required"),
        (lambda path: made.write(path / "search.json", {}), "not there yet"),
    ],
)
def test_nothing_to_say_is_said_in_a_line(tmp_path, write, words):
    write(tmp_path / "given")
    (tmp_path / "report.html").write_text("what was there before")
    with pytest.raises(ValueError, match=words) as refused:
        reports.report(tmp_path / "given", tmp_path / "report.html")
    assert "\n" not in str(refused.value)
    assert (tmp_path / "report.html").read_text() == "what was there before"


def test_the_extra_that_is_missing(monkeypatch, everything, tmp_path):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ValueError, match=r"pip install 'sublayer\[report\]'"):
        reports.report(everything, tmp_path / "report.html")


def test_whole_or_not_at_all(everything, tmp_path):
    with pytest.raises(ValueError, match="a folder is there"):
        reports.report(everything / "supernet", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_importing_is_light():
    """What draws and what reads journals is imported when it is used."""
    for path in Path(reports.__file__).parent.rglob("*.py"):
        assert not re.search(r"^(import|from) (altair|vl_convert|optuna)", path.read_text(), re.MULTILINE)


def _opened(path):
    from sublayer.runs import Run

    return Run.open(path)


def test_a_search_shows_its_limits_and_what_they_let_through(tmp_path):
    path = made.search(tmp_path / "search", trials=0, limits={"latency": 0.0115, "memory": 60e6})
    read = Read(reports.report(path, tmp_path / "report.html", sample=0).path.read_text(encoding="utf-8"))
    assert "with latency at most 11.5 ms and memory at most 60 MB: 15 on the front" in read.text
    front = json.loads((path / "front.json").read_text())["front"]
    over = [one for one in front if one["measured"] and one["measured"]["latency"] > 0.0115]
    assert f"{len(over)} model turned out above a limit" in read.text
    cells = [one for one in read.all("td") if one.get("data-label") == "measured within the limits"]
    assert len(cells) == len(front)
    assert f"sublayer show {shlex.quote(f'{path}#')[:-1]}" in read.text  # a name to paste


def test_a_disturbed_measurement_proves_nothing(tmp_path):
    front = [made.member(n, n) for n in (2, 3, 4)]
    for one, words in zip(front, ("other processes take 96 % of a core", None, None), strict=True):
        one["measured"] |= {"disturbed": words, "latency": 2 * one["values"]["latency"], "raw": 0.5}
    front[1]["within"] = True  # whatever the figures say
    budget = {"config": made.config(6), "measured": {"latency": 0.004, "memory": 9_000_000}}
    given = {"trials": 0, "limits": {"latency": 0.004}, "disturbed": "the device runs at 0.6 of its quiet pace"}
    path = made.search(tmp_path / "search", **given, front=front, budget=budget)
    read = Read(reports.report(path, tmp_path / "report.html", sample=0).path.read_text(encoding="utf-8"))
    assert "were disturbed: the device runs at 0.6 of its quiet pace. Predicted latencies are rough" in read.text
    assert "and so is the limit of latency" in read.text
    assert "1 model turned out above a limit" in read.text  # the third
    assert "on 2 measured models" in read.text
    assert {"other processes take 96 % of a core", "500 ms as the clock showed it"} <= {
        one.get("title") for tag in ("small", "span") for one in read.all(tag)
    }
    figure = reports.figures(path)["front-decoder-params-latency"].to_dict()
    rows = [row for data in figure["datasets"].values() for row in data]
    assert [row["o1"] for row in rows if row.get("name") == "the model that sets the budget"] == [4.0]
    assert [row["number"] for row in rows if "ring" in row] == [3, 4]  # the first is not drawn
    assert "Not drawn: 1 measurement of latency on a busy machine." in read.text


def test_a_budget_measured_on_a_busy_machine_is_not_drawn(tmp_path):
    front = [made.member(n, n) for n in (2, 3)]
    for one in front:
        one["measured"] |= {"disturbed": "others work"}
    measured = {"latency": 0.004, "memory": 9_000_000, "disturbed": "others work"}
    budget = {"config": made.config(6), "measured": measured}
    path = made.search(tmp_path / "search", trials=0, limits={"latency": 0.004}, front=front, budget=budget)
    chart = reports.figures(path)["front-decoder-params-latency"].to_dict()
    rows = [row for data in chart["datasets"].values() for row in data]
    assert not [row for row in rows if "ring" in row or row.get("name") == "the model that sets the budget"]
    read = Read(reports.report(path, tmp_path / "report.html", sample=0).path.read_text(encoding="utf-8"))
    assert "Not drawn: 2 measurements of latency on a busy machine." in read.text


def test_curves_by_length(tmp_path):
    path = made.lengths(tmp_path / "by-length")
    told = reports.report(tmp_path, tmp_path / "r.html", png=tmp_path / "png", svg=tmp_path / "svg", sample=0)
    assert (told.sections, told.charts, told.problems) == ([f"Lengths {path}"], 4, [])  # not each length again
    assert len(told.pictures) == 2 * 5
    text = Read(told.path.read_text(encoding="utf-8")).text
    said = (
        "3 variants at 4 lengths, 512 to 32,768 tokens.",
        "grows as length^1.00 with linear, length^2.00 with dense.",
        "dense, L^1.80",
        "A step reads about 32,768 tokens at every length.",
        "26.84 s",
        f"sublayer report {path}/length-512 {path}/length-2048",
        "--seeds 3 train.batch=4 --lengths 512,2048,8192,32768 --out",
    )
    assert [words for words in said if words not in text] == []
    figures = reports.figures(path)
    assert list(figures) == ["lengths-latency", "lengths-memory", "lengths-step-memory", "lengths-loss"]
    for name, chart in figures.items():
        layers = chart.to_dict()["layer"]
        assert {layer["encoding"]["x"]["scale"]["type"] for layer in layers} == {"log"}
        assert {layer["encoding"]["y"]["scale"].get("type") for layer in layers} == {
            None if name == "lengths-loss" else "log"
        }


def test_curves_of_what_was_measured(tmp_path):
    """A variant that diverged has no loss there; what nobody measured is not drawn; alike figures have room."""
    points = [{"length": length, "rows": 1, "loss": {"mean": 2.0}, "step_memory": 10**6} for length in (8, 16)]
    rows = [{"name": "a", "points": points}, {"name": NASTY, "points": [points[0], {"length": 16, "rows": 1}]}]
    path = made.lengths(tmp_path / "few", at=(8, 16), rows=rows)
    assert list(reports.figures(path)) == ["lengths-step-memory", "lengths-loss"]
    told = reports.report(path, tmp_path / "r.html", sample=0)
    assert told.problems == []
    assert NASTY not in told.path.read_text(encoding="utf-8")
    made.write(path / "lengths.json", {"lengths": 3})
    with pytest.raises(ValueError, match="damaged or edited"):
        reports.report(path, tmp_path / "r.html")


def test_a_search_marks_the_model_that_a_comparison_trained(tmp_path):
    path = made.search(tmp_path / "all" / "search", trials=0)
    (chosen, *_) = json.loads((path / "front.json").read_text())["front"]
    rows = [made.row("by hand", "(sf)x6", 1.5), made.row("searched", chosen["layout"], 1.4, config=chosen["config"])]
    made.compare(tmp_path / "all" / "comparison", rows)
    read = Read(reports.report(tmp_path / "all", tmp_path / "report.html", sample=0).path.read_text(encoding="utf-8"))
    assert f"Trained: {path}#{chosen['number']} (searched in {tmp_path / 'all' / 'comparison'}, validation" in read.text


def test_a_search_marks_the_candidate_that_a_run_was_made_from(tmp_path, run):
    path = made.search(tmp_path / "all" / "search", trials=0)
    shutil.copytree(run, tmp_path / "all" / "mine")
    asked = json.loads((tmp_path / "all" / "mine" / "run.json").read_text())
    sealed_json.write(tmp_path / "all" / "mine" / "run.json", {**asked, "origin": f"{path}#51"})
    read = Read(reports.report(tmp_path / "all", tmp_path / "report.html", sample=0).path.read_text(encoding="utf-8"))
    assert f"Trained: {path}#51 ({tmp_path / 'all' / 'mine'}, validation loss" in read.text


def test_candidates_are_named_by_words_too(everything, page):
    from sublayer.nas.pick import PICKS, pick
    from sublayer.nas.records import SearchResult

    front = SearchResult.from_json(json.loads((everything / "search" / "front.json").read_text()), everything)
    read = Read(page[1])
    for word in PICKS:
        assert re.search(rf"#{pick(front, word).number}(#\w+, )*#{word}", read.text)


def test_scores_are_called_by_their_split(tmp_path):
    score = {"mean": 2.277, "low": 2.25, "high": 2.304}
    rows = [made.row("by hand", "sf", 1.5), made.row("searched", "sff", 1.4, test={"bits_per_byte": score})]
    rows[1]["difference"] = {"mean": -0.722, "low": -0.8, "high": -0.644, "verdict": "better"}
    path = made.compare(tmp_path / "compare", rows, baseline="by hand")
    read = Read(reports.report(path, tmp_path / "report.html").path.read_text(encoding="utf-8"))
    titles = {one["data-label"] for one in read.all("td")}
    assert {"validation loss (nats per token)", "validation bits per byte", "test bits per byte"} <= titles
    assert "difference: the validation loss less that of by hand, below 0 is better" in read.text
    assert ("2.277 ±\u00a00.027" in read.text, "−0.722 ±\u00a00.078" in read.text) == (True, True)
    assert not re.search(r"\d\.\d{6}", read.text.split("The request")[0])
