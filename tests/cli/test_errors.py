"""Wrong input answers in one line on stderr, with exit code 2 and no traceback, and says what to do."""

import re

import pytest

PLAIN = 'kind = "decoder"\nvocab = 9\ndim = 8\n[stack]\nkind = "plain"\nlayout = "s"\nalphabet.s = "dense"'


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["show", "gtp2"], r"unknown paper 'gtp2'; did you mean gpt2"),
        (["show", "gpt2", "--diff", "par-bse"], r"did you mean par-base"),
        (["show", "gpt2", "layout=(sf"], r"layout '\(sf' has a '\(' without its '\)'"),
        (["show", "gpt2", "layout=sf)x2"], r"has a '\)' without its '\('"),
        (["show", "gpt2", "layout=(sq)x2"], r"letter 'q'.* it has s, f"),
        (["show", "gpt2", "layout=sfx2"], r"repeat is written right after '\)'"),
        (["show", "gpt2", "layout=par(0)"], r"choose p between 1 and 24"),
        (["show", "gpt2", "layout=sandwich(13)"], r"at least 26 sublayers"),
        (["show", "gpt2", "layout=par(5,0)"], r"'par\(5,0\)' stands on 0 sublayers; give a whole number from 1 to"),
        (["show", "gpt2", "layout=par(5,2)"], r"par\(5\) of 2 sublayers leaves 0 attentions; choose p between 1 and 2"),
        (["show", "gpt2", "layout=par(x,2)"], r"layout 'par\(x,2\)' has 'x'"),
        (["show", "gpt2", "dim=8", "dim=16"], r"dim=16: dim was given before, as 8; give it once"),
        (["show", "gpt2", "layout=(sf)x2", "layout=(sf)x3"], r"layout was given before, as \(sf\)x2; give it once"),
        (["show", "nowhere#3"], r"nowhere: not a search, it has no search\.json"),
        (["show", "."], r"\.: a folder without a run or a search; give a paper's name"),
        (["show", "gpt2", "s.heads=7"], r"heads=7 does not divide dim=768; use one of 1, 2, 3"),
        (["show", "gpt2", "s.kv_heads=5"], r"kv_heads"),
        (["show", "gpt2", "layout=(sf)x3", "s.heads=2,2"], r"2 values for 3 occurrences of 's'"),
        (
            ["show", "bert-base", "position=relative_xl"],
            r"relative_xl .*looks both ways; use position=shaw",
        ),
        (["show", "gpt2", "s.pattern=full"], r"full looks both ways.*; use pattern=causal"),
        (["show", "gpt2", "f=cross"], r"alphabet\.f: cross needs a source"),
        (["show", "gpt2", 'embedding={"kind": "adaptive", "cutoffs": [10]}'], r"tied .*adaptive.*; use head"),
        (["show", "gpt2", "position=rotary", "dim=36"], r"rotary turns features in pairs, got head size 3"),
        (["show", "gpt2", "position=rotry"], r"stack\.position: unknown position kind 'rotry'; did you mean rotary"),
        (["show", "gpt2", "hed=tied"], r"unknown key 'hed'; did you mean head"),
        (["show", "gpt2", "f.innner=3"], r"f\.innner: there is no such field"),
        (["show", "gpt2", "dim=wide"], r"dim: .*integer.*'wide'"),
        (["show", "gpt2", "dim"], r"'dim' is not a change; write key=value"),
        (["show", "gpt2", "=3"], r"write key=value"),
        (["show", "gpt2", "--length", "0"], r"at least 1 new token"),
        (["show", "gpt2", "--length", "long"], r"--length.*long"),
        (["show", "bert-base", "--memory", "5"], r"an encoder .*remembers nothing"),
        (["show", "gpt2", "--colour"], r"--colour.* See sublayer --help"),
        (["show", "gpt2", "--plugin", "no_such_parts"], r"plug-in 'no_such_parts' cannot be imported"),
        (["show", "gpt2", "--plugin", ".parts"], r"plug-in '\.parts'"),
        (["show", "missing.json"], r"missing\.json: there is no such file"),
        (["show"], r"NAME requires an argument"),
        (["list", "zebra"], r"no paper matches 'zebra'; there are transformer, "),
        (["sing"], r"[Uu]nknown command \"sing\""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_one_line(refuse, words, answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert re.search(answer, refuse(*words))


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("bad.json", "{bad", r"bad\.json: not valid JSON: .*line 1"),
        ("bad.toml", "a = = 1", r"bad\.toml: not valid TOML: .*line 1"),
        ("list.json", "[1]", r"list\.json: expected a model: a name \(decoder"),
        ("short.json", '{"kind": "decoder"}', r"short\.json: vocab: a value is required"),
        ("kind.toml", 'kind = "decodr"', r"kind\.toml: unknown model kind 'decodr'; did you mean decoder"),
        (
            "rule.toml",
            PLAIN.replace('"s"', '"par(5)"'),
            r"layout 'par\(5\)' is a rule with no layout to stand on; name one: par\(5,12\)",
        ),
        (
            "mine.toml",
            PLAIN.replace("dim", 'head = "mine"\ndim'),
            r"head: unknown head kind 'mine'; .*; for a kind of your own, add --plugin MODULE",
        ),
        ("bytes.json", b"\xff\xfe", r"bytes\.json: cannot be read"),
    ],
    ids=lambda value: value if str(value).endswith(("json", "toml")) else "",
)
def test_a_file_that_is_no_config(refuse, tmp_path, monkeypatch, name, text, answer):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert re.search(answer, refuse("show", name))


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("x = (\n", r"SyntaxError: '\(' was never closed"),
        ("\nx = y\n", r"failing_\d\.py:2: NameError: name 'y' is not defined"),
        ("import no_such_thing\n", r"cannot be imported: No module named 'no_such_thing'"),
    ],
)
def test_a_plugin_that_fails(refuse, tmp_path, monkeypatch, source, answer):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    module = f"failing_{len(source)}"
    (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
    assert re.search(answer, refuse("list", "--plugin", module))
