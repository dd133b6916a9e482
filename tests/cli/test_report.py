"""`sublayer report`: the page is tested in tests/reports; here, what is said of it."""

import json

import pytest

from tests.reports import made


@pytest.fixture
def folder(tmp_path):
    return made.compare(tmp_path / "compare")


def test_words(run, folder, tmp_path):
    said = run(
        "report", str(folder), "--out", str(tmp_path / "page.html"), "--svg", str(tmp_path / "svg"), "--open", "no"
    )
    first, second, third = said.splitlines()
    assert first.startswith(f"{tmp_path / 'page.html'}: 0.9 MB, 2 charts")
    assert second.strip() == f"Comparison {folder}"
    assert third == f"3 pictures in {tmp_path / 'svg'}"
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_json_and_the_usual_place(run, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "front.json").write_text("{")
    told = json.loads(run("report", "compare", "broken", "--json"))
    assert (told["path"], told["charts"], told["pictures"]) == ("report.html", 2, [])
    assert "broken/front.json" in told["problems"][0]
    assert "not read: broken/front.json" in run("report", "compare", "broken")


def test_it_opens_when_asked(run, folder, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    run("report", str(folder), "--out", str(tmp_path / "page.html"), "--open", "yes")
    assert shown == [(tmp_path / "page.html").as_uri()]


def test_one_line(refuse, folder, tmp_path):
    assert "no folder was given" in refuse("report")
    assert "there is no such folder" in refuse("report", str(tmp_path / "nowhere"))
    assert "sample=-1" in refuse("report", str(folder), "--sample", "-1")
    (tmp_path / "empty").mkdir()
    assert "nothing to report in it" in refuse("report", str(tmp_path / "empty"))
    assert "maybe" in refuse("report", str(folder), "--open", "maybe")
    assert "a folder is there" in refuse("report", str(folder), "--out", str(tmp_path))
