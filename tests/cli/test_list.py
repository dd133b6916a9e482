"""`sublayer list`: the family as a tree, legible in a narrow terminal, and as JSON."""

import json
import re

import pytest

import sublayer


def test_the_family_as_a_tree(run):
    lines = run("list").splitlines()
    shown = [re.sub(r"^[│├└─ ]*", "", line).split()[0] for line in lines[1:-1]]
    assert shown == sublayer.names()
    assert lines[1].startswith("transformer ")
    assert any(line.startswith("├─ bert-base") for line in lines)
    assert any(line.startswith("│  └─ roformer") for line in lines)
    assert any(re.match(r"   └─ transformer-xl-base +\(sf\)x16 +192 M +54\.6 M +26\.6 G", line) for line in lines)


@pytest.mark.parametrize("columns", [40, 80, 100, 120, 200])
def test_no_figure_is_cut_off(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("list").splitlines()
    for line in lines[1:25]:
        assert len(re.findall(r"\d [MG]\b", line[:80])) == 3
        assert len(line) <= max(columns, 80)
    assert ("what it changes" in lines[0]) == (columns >= 120)


def test_a_pattern(run):
    assert {row["name"] for row in json.loads(run("list", "par*", "--json"))} == set(sublayer.names("par*"))
    assert "transformer-xl-large" in run("list", "xl")
    assert "gpt2" not in run("list", "xl")


def test_json(run):
    rows = {row["name"]: row for row in json.loads(run("list", "--json"))}
    assert list(rows) == sublayer.names()
    assert rows["par-base"]["parent"] == "transformer-xl-base"
    assert rows["par-base"]["cost"]["params"] == 199_840_218
    assert rows["transformer"]["parent"] is None
    assert all(row["cite"] for row in rows.values())
