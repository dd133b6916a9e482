"""Damaged and hostile files: one line each, no traceback, and never a neighbour hidden."""

import json
import re
import shutil

import pytest

import sublayer
from tests.reports import made
from tests.training.tiny import SMALL, TEXT

DEEP = "[" * 20_000 + "]" * 20_000
NESTED = '{"a": ' * 5_000 + "1" + "}" * 5_000
WORDS = {"mean": "many", "loss": "small", "latency": "quick"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One run, and one comparison, search, supernet and set of proxies."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBLAYER_CACHE", str(folder / "cache"))
        asked = {**SMALL, "train.steps": 1}
        sublayer.train("gpt2", str(folder / "book.txt"), folder / "all" / "good", asked, quiet=True)
        sublayer.train("gpt2", str(folder / "book.txt"), folder / "all" / "bad", asked, quiet=True)
    for name, make in (("compare", made.compare), ("search", made.search), ("supernet", made.supernet)):
        make(folder / "all" / name)
    made.proxies(folder / "all" / "proxies")
    made.reproduction(folder / "all" / "claim")
    made.lengths(folder / "all" / "lengths", at=(8, 16))
    return folder / "all"


@pytest.fixture
def there(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "all")
    return tmp_path / "all"


@pytest.mark.parametrize("content", [DEEP, NESTED, "[]", "{", '{"format": 1, "train": []}', "\xff"])
@pytest.mark.parametrize("file", ["run.json", "metrics.jsonl", "clock.jsonl"])
def test_runs_lists_the_others(run, there, file, content, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    (there / "bad" / file).write_text(f"{content}\n", encoding="latin-1")
    rows = {row["run"]: row for row in json.loads(run("runs", str(there), "--json"))}
    assert rows[str(there / "good")]["steps"] == 1
    assert "error" not in rows[str(there / "good")]
    assert "\n" not in rows[str(there / "bad")].get("error", "")
    page = run("runs", str(there))
    assert str(there / "good") in page


@pytest.mark.parametrize(
    ("folder", "file"),
    [
        ("bad", "run.json"),
        ("compare", "table.json"),
        ("compare", "compare.json"),
        ("search", "front.json"),
        ("search", "search.json"),
        ("supernet", "figures.json"),
        ("supernet", "supernet.json"),
        ("proxies", "ranking.json"),
        ("claim", "claim.json"),
        ("lengths", "lengths.json"),
    ],
)
@pytest.mark.parametrize("content", [DEEP, NESTED, "[1]", json.dumps(WORDS), '{"rows": "none"}'], ids=range(5))
def test_a_report_shows_the_others(run, there, tmp_path, folder, file, content):
    """A damaged result is left out, with one line; a damaged request leaves out only how to repeat it."""
    (there / folder / file).write_text(content)
    for other in ("bad", "compare", "search", "supernet", "proxies", "claim", "lengths"):
        if other != folder:
            shutil.rmtree(there / other)
    found = json.loads(run("report", str(there), "--out", str(tmp_path / "page.html"), "--sample", "0", "--json"))
    assert any("Run" in title for title in found["sections"])
    result = file in (
        "run.json",
        "table.json",
        "front.json",
        "figures.json",
        "ranking.json",
        "claim.json",
        "lengths.json",
    )
    assert len(found["problems"]) == int(result)
    assert all("\n" not in problem and file in problem for problem in found["problems"])


@pytest.mark.parametrize("where", ["mean", "losses", "latency", "params"])
def test_words_for_numbers_in_a_table(run, there, tmp_path, where):
    path = there / "compare" / "table.json"
    table = json.loads(path.read_text())
    table["rows"][1][where] = ["many"] if where == "losses" else "many"
    path.write_text(json.dumps(table))
    found = json.loads(run("report", str(there), "--out", str(tmp_path / "page.html"), "--sample", "0", "--json"))
    (problem,) = found["problems"]
    assert re.search(rf"table\.json: rows\.1\.{where}.*damaged or edited", problem)
    assert len(found["sections"]) == 6


@pytest.mark.parametrize("where", [("base", "mean"), ("figure2", "points"), ("places",)])
def test_words_for_numbers_in_figures(run, there, tmp_path, where):
    path = there / "supernet" / "figures.json"
    figures = json.loads(path.read_text())
    inner = figures
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = "many"
    path.write_text(json.dumps(figures))
    found = json.loads(run("report", str(there), "--out", str(tmp_path / "page.html"), "--sample", "0", "--json"))
    assert len(found["problems"]) == 1
    assert "figures.json" in found["problems"][0]
    assert len(found["sections"]) == 6


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("deep.json", DEEP, r"deep\.json: .*nested"),
        ("deep.json", NESTED, r"deep\.json: .*nested"),
        ("deep.toml", f"a = {DEEP}", r"deep\.toml: .*nested"),
        ("list.json", '{"kind": ["decoder"]}', r"list\.json: .*kind"),
        ("table.toml", '[kind]\nname = "decoder"', r"table\.toml: .*kind"),
    ],
)
def test_a_config_that_is_none(refuse, tmp_path, name, text, answer):
    (tmp_path / name).write_text(text)
    assert re.search(answer, refuse("show", str(tmp_path / name)))


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        (f"layout={'(' * 20_000}sf{')' * 20_000}", r"nests more than"),
        (f"s={DEEP}", r"nested"),
        ('s={"kind": ["multi_head"]}', r"kind"),
        ('position={"kind": {"a": 1}}', r"kind"),
    ],
    ids=["layout", "json", "list", "table"],
)
def test_a_change_that_is_none(refuse, word, answer):
    assert re.search(answer, refuse("show", "gpt2", word))


@pytest.mark.parametrize("seeds", ["100000000000000000000", "1" * 5000, "99999999999999999999,3", "-1", "x"])
@pytest.mark.parametrize("verb", [("compare", "gpt2", "llama", "--steps", "1"), ("reproduce", "feedback/copy")])
def test_seeds_beyond_reason(refuse, verb, seeds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "seed" in refuse(*verb, "--seeds", seeds)
