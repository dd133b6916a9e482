"""Curves of several seeds."""

from pathlib import Path
from types import SimpleNamespace

from sublayer.reports import curves
from sublayer.reports.charts import Entry
from sublayer.reports.history import History


def history(name, losses):
    """A run with a validation loss every ten steps."""
    run = SimpleNamespace(path=Path(name))
    valid = [{"step": 10 * at, "tokens": 640 * at, "valid_loss": loss} for at, loss in enumerate(losses, 1)]
    return History(name, run, {"model": {}}, {}, [], valid)  # pyright: ignore[reportArgumentType]


def rows(figure):
    return [row for data in figure.chart.to_dict()["datasets"].values() for row in data]


def test_the_mean_over_seeds_with_its_range():
    runs = [history("a-0", [3.0, 2.0]), history("a-1", [3.4, 2.2, 1.0]), history("b-0", [4.0, 3.0])]
    key = [Entry("b", "#000001"), Entry("a", "#000002"), Entry("unused", "#000003")]
    (figure,) = curves.figures(runs, ["a", "a", "b"], key, over="seeds")
    found = [(row["of"], row["x"], round(row["y"], 6), row.get("low"), row.get("high")) for row in rows(figure)]
    assert found == [
        ("a", 640, 3.2, 3.0, 3.4),
        ("a", 1280, 2.1, 2.0, 2.2),  # not further: the other seed has not come that far
        ("b", 640, 4.0, None, None),
        ("b", 1280, 3.0, None, None),
    ]
    assert [one.colour for one in figure.key] == ["#000002", "#000001"]
    assert "the mean over seeds" in figure.note


def test_runs_that_are_no_seeds_keep_their_own_curves():
    (figure,) = curves.figures([history("a", [3.0]), history("b", [2.0])], ["model", "model"])
    assert [row["run"] for row in rows(figure)] == ["a", "b"]
    assert "mean" not in figure.note
