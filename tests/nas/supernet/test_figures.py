"""What figures.json says, from words and scores made up."""

from hypothesis import given
from hypothesis import strategies as st

from sublayer.nas.supernet.figures import figures, third, thirds
from sublayer.nas.supernet.records import SupernetFigures
from tests.nas.supernet.small import base


@given(st.text("sf-", min_size=3))
def test_thirds_are_the_word(word):
    parts = [third(word, n) for n in range(3)]
    assert "".join(parts) == word
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_thirds_count_by_seed():
    first, second, last = thirds(["ssf-ff", "sfff--"], "sf-")
    assert first["s"].dump() == {"mean": 1.5, "std": 0.5**0.5, "counts": [2, 1]}
    assert second["-"].counts == [1, 0]
    assert last["f"].mean == 1.0


def test_all_figures():
    results = [{"seed": n, "word": word, "layout": word.strip("-") or None} for n, word in enumerate(["ssf-", "----"])]
    scores = [
        {"kind": "searched", "seed": 0, "perplexity": 5.0, "layout": "ssf", "p": None},
        {"kind": "base", "seed": 0, "perplexity": 4.0, "layout": "(sf)x2", "p": None},
        {"kind": "base", "seed": 1, "perplexity": 6.0, "layout": "(sf)x2", "p": None},
        {"kind": "par", "seed": 0, "perplexity": 7.0, "layout": "s (f)x3", "p": 3.0},
        {"kind": "par", "seed": 0, "perplexity": 8.0, "layout": "(sf)x2", "p": 2.0},
    ]
    shown = figures(base().stack, "sf-", results, scores)
    assert SupernetFigures.model_validate(shown.dump()) == shown  # what is written is what is read
    assert shown.base.dump() == {
        "layout": "(sf)x2",
        "attention": 2,
        "seeds": [0, 1],
        "perplexities": [4.0, 6.0],
        "mean": 5.0,
        "std": 2**0.5,
    }
    assert [point.attention for point in shown.figure2.points] == [2, 0]
    assert [point.perplexity for point in shown.figure2.points] == [5.0, None]
    assert [(point.p, point.attention) for point in shown.figure4.points] == [(2.0, 2), (3.0, 1)]


def test_a_base_that_diverged_has_no_mean():
    told = {"name": "base-0", "kind": "base", "seed": 0, "perplexity": None, "layout": "(sf)x2", "p": None}
    shown = figures(base().stack, "sf-", [{"seed": 0, "word": "sf-f", "layout": "sff"}], [{**told, "diverged": "nan"}])
    assert (shown.base.mean, shown.base.std, shown.diverged) == (None, None, {"base-0": "nan"})


def test_nothing_was_retrained():
    shown = figures(base().stack, "sf-", [{"seed": 0, "word": "sf-f", "layout": "sff"}], [])
    assert shown.base is None
    assert shown.figure4.points == []
