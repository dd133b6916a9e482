"""`sublayer show NAME --pattern`."""

import json
from xml.etree import ElementTree

import pytest

SMALL = ["gpt2", "dim=48", "layout=(sf)x2", "s.heads=4", "f.inner=64", "vocab=100"]
WINDOW = [*SMALL, "s.pattern=window", "s.pattern.size=3", "--pattern"]
PAGE = """
6 tokens: a row is a query, a column a key; a character is two rows

┌──────┐
│█▄    │
│▀██▄  │
│  ▀██▄│
└──────┘

of all pairs  keys a token  reach
      41.7 %           2.5      2

window size=3
"""


def test_the_page(run):
    page = run("show", *WINDOW, "--length", "6")
    title, first, rest = page.partition(PAGE.split(":")[0].strip())
    assert title.split() == [*WINDOW[:-1], "who", "sees", "whom"]
    assert "\n".join(line.rstrip() for line in f"{first}{rest}".splitlines()) == PAGE.strip("\n")


def test_what_differs_stands_side_by_side(run):
    page = run("show", *SMALL, "s.pattern=strided", "s.pattern.use=by_layer", "s.pattern.stride=4", "--pattern")
    titles, top, *_ = (line for line in page.splitlines() if line.startswith(("layer ", "┌")))
    assert titles.split() == ["layer", "1", "layer", "2"]
    assert top.count("┌") == 2
    assert max(map(len, page.splitlines())) <= 80
    assert "layer 2: dilated by=4(causal(full))" in page


def test_a_narrow_terminal_has_narrower_squares(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    page = run("show", *WINDOW, "--length", "256")
    assert max(len(line) for line in page.splitlines()) <= 40
    assert f"┌{'─' * 32}┐" in page


def test_as_json(run):
    data = json.loads(run("show", *WINDOW, "--length", "4", "--json"))
    (panel,) = data["panels"]
    assert panel["queries"] == ["0", "0-1", "0-2", "1-3"]
    assert (panel["seen"], panel["keys_per_token"], panel["reach"]) == (9 / 16, 9 / 4, 2)
    assert (panel["layers"], panel["heads"], panel["pattern"]["size"]) == ("all", "all", 3)
    assert (data["length"], data["left_out"]) == (4, 0)


@pytest.mark.parametrize("ending", ["svg", "PNG"])
def test_into_a_file(run, tmp_path, ending):
    file = tmp_path / f"pattern.{ending}"
    assert run("show", *WINDOW, "--out", str(file)).startswith(f"{file}: 64 tokens")
    if ending == "svg":
        assert ElementTree.parse(file).getroot().get("width")
    else:
        assert file.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [file]
    data = json.loads(run("show", *WINDOW, "--out", str(file), "--json"))
    assert data["out"] == str(file)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--length", "0"], "length 0: a pattern is drawn for 1 to 16,384 tokens"),
        (["--length", "16385"], "length 16385: a pattern is drawn for 1 to 16,384 tokens"),
        (["--out", "a.jpg"], "--out a.jpg: a picture ends in .svg or .png"),
        (["--out", "a"], "--out a: a picture ends in .svg or .png"),
        (["--memory", "5"], "--memory 5: a pattern is drawn without it"),
        (["--diff", "gpt2"], "--diff gpt2: a pattern is drawn without it"),
        (["layout=(f)x2"], "none of its parts has a pattern of who sees whom (dense); show a model with"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_drawn_is_refused_in_a_line(refuse, words, answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [*SMALL[:2], *SMALL[3:], *words] if words[0].startswith("layout") else [*SMALL, *words]
    assert answer in refuse("show", *words, "--pattern")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_refused(refuse, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder.svg").mkdir()
    answer = refuse("show", *WINDOW, "--out", str(tmp_path / "file" / "a.svg"))
    assert "cannot be written" in answer
    assert "a folder is there" in refuse("show", *WINDOW, "--out", str(tmp_path / "folder.svg"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.svg"]


def test_a_file_needs_a_pattern(refuse):
    assert "add --pattern" in refuse("show", "gpt2", "--out", "a.svg")
