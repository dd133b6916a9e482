"""search.json and front.json: one record each, the same bytes again, files of earlier versions, hostile files."""

import json

import pytest

from sublayer.nas.folder import SearchFolder
from sublayer.nas.records import MeasuredFigures, SearchResult
from sublayer.reports.folders import read
from tests.nas import little
from tests.reports import made

NESTED = "[" * 100_000 + "]" * 100_000


class Meter:
    def measure(self, configs):
        latencies = [little.evaluate(config)["latency"] for config in configs]
        return [MeasuredFigures(latency=one, low=one, high=one, memory=5) for one in latencies]


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    out = tmp_path_factory.mktemp("records") / "s"
    return out, little.find(out, meter=Meter(), limits={"params": "1M"})


def test_what_is_read_is_written_again_in_the_same_bytes(searched):
    out, result = searched
    folder = SearchFolder.open(out)
    before = folder.front.read_bytes()
    assert folder.read_result() == result
    folder.write_result(result)
    assert folder.front.read_bytes() == before
    request = folder.read_request()
    assert request.limits == {"params": 1e6}
    sealed = {"format", "sha256"}
    on_disk = json.loads((out / "search.json").read_text())
    assert {name: value for name, value in on_disk.items() if name not in sealed} == request.to_json()


def test_reports_read_the_same_record(searched):
    out, result = searched
    assert read(out / "front.json", SearchResult) == result


def test_a_file_of_an_earlier_version_is_read(tmp_path):
    """Without limits, generations and the box, with figures that are null, with fields of a later version."""
    out = made.search(tmp_path / "s", trials=0, feasible=None, later={"field": 1})
    data = json.loads((out / "front.json").read_text())
    data["front"][0]["values"]["latency"] = None
    (out / "front.json").write_text(json.dumps(data))
    result = SearchFolder(out).read_result()
    assert result.limits == {}
    assert "latency" not in result.front[0].values
    assert result.front[0].measured.latency > 0


@pytest.mark.parametrize(
    "damage",
    [
        {"trials": "many"},
        {"front": "none"},
        {"front": [{"number": "one", "values": {}}]},
        {"front": [{"number": 1, "values": {"latency": "fast"}}]},
        {"front": [{"number": 1, "values": [1]}]},
        {"objectives": [{"name": ["latency"]}]},
        {"hypervolumes": {"0": 1}},
        {"limits": {"latency": True}},
        {"predictor": 3},
    ],
    ids=str,
)
def test_words_for_numbers_are_refused_in_one_line(tmp_path, damage):
    little.find(tmp_path / "s")
    path = tmp_path / "s" / "front.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    with pytest.raises(ValueError, match=r"front\.json: not what a search writes \(.*remove it") as error:
        little.find(tmp_path / "s")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["search.json", "front.json"])
@pytest.mark.parametrize("deep", [NESTED, f'{{"front": {NESTED}}}'], ids=["list", "object"])
def test_files_nested_too_deeply_are_refused_in_one_line(tmp_path, name, deep):
    little.find(tmp_path / "s")
    (tmp_path / "s" / name).write_text(deep)
    with pytest.raises(ValueError, match=name) as error:
        little.find(tmp_path / "s")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ({"population": 10**20}, r"population=100000000000000000000, iterations=3: expected 5 to"),
        ({"iterations": 10**20}, r"iterations=100000000000000000000: expected 5 to"),
        ({"seed": 10**20}, r"seed=100000000000000000000: expected a 64-bit integer"),
        ({"seed": 2**40, "method": "nsga2"}, r"seed=1099511627776: nsga2 takes 0 to 4,294,967,295"),
        ({"train": 10**20}, r"train=100000000000000000000: expected the number of models"),
    ],
    ids=str,
)
def test_numbers_beyond_reason_are_refused(tmp_path, wrong, answer):
    with pytest.raises(ValueError, match=answer):
        little.find(tmp_path / "s", **wrong)
    assert not (tmp_path / "s").exists()
