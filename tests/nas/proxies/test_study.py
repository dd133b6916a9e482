"""A study: a sample trained and scored, gone on with where it stopped, refused where another was asked for."""

import csv
import json
from dataclasses import replace

import pytest

from sublayer import config, executors
from sublayer.data import DataConfig
from sublayer.nas.proxies import judging, table
from sublayer.nas.proxies.records import ProxyRanking
from sublayer.nas.proxies.study import Study, StudyReporter, StudyRequest
from sublayer.nas.space import Space
from sublayer.training import TrainConfig
from tests.training import tiny

CHEAP = ("decoder_params", "snip", "relu_log_det")


def asked(book, **more):
    import sublayer

    base = sublayer.config("gpt2", {key: value for key, value in tiny.SMALL.items() if "train." not in key})
    space = Space.of(base, {"dim": "8|16|24", "layout": "(sf)|(sf)x2", "f.inner": "each(8|16|32)"})
    train = TrainConfig(steps=3, batch=2, length=16, warmup=1, eval_every=3)
    how = {"models": 4, "proxies": CHEAP, "steps": 2, **more}
    return StudyRequest(space, DataConfig.guess(str(book)), how.pop("train", train), **how)


def worked(out, request):
    study, reporter = Study.begin(out, request), Listed()
    with executors.pool() as pool:
        study.score(pool, reporter)
        study.train(pool, reporter)
    assert sorted(reporter.numbers) == sorted([*range(request.models)] * 2)
    return study


class Listed(StudyReporter):
    def __init__(self):
        self.numbers = []

    def done(self, number):
        self.numbers.append(number)


@pytest.fixture(scope="module")
def study(book, tmp_path_factory):
    study = worked(tmp_path_factory.mktemp("proxies") / "study", asked(book))
    study.finish()
    return study


def test_a_row_a_model_and_figures_of_every_proxy(study):
    rows = list(csv.DictReader((study.path / "table.csv").read_text().splitlines()))
    configs = study.sample()
    assert [int(float(row["decoder_params"])) for row in rows] == [one.cost().decoder_params for one in configs]
    assert len({one.hash for one in configs}) == 4
    for row in rows:
        lines = (study.path / "runs" / row["name"] / "metrics.jsonl").read_text().splitlines()
        losses = [json.loads(line).get("valid_loss") for line in lines]
        assert float(row["loss"]) == min(loss for loss in losses if loss is not None)
    ranking = ProxyRanking.read(study.path / "ranking.json")
    (models,) = ranking.sets
    assert {proxy.name for proxy in models.proxies} == set(CHEAP)
    assert all(proxy.seconds > 0 and -1 <= proxy.spearman <= 1 for proxy in models.proxies)
    again = judging.judge(table.read(study.path / "table.csv"), "t").sets[0]
    figures = [proxy.model_copy(update={"seconds": None}) for proxy in models.proxies]
    assert again.proxies == figures


def test_the_same_request_goes_on_and_more_models_are_added(study, book):
    before = {path: path.stat().st_mtime_ns for path in study.path.rglob("*.safetensors")}
    more = worked(study.path, asked(book, models=5))
    assert len([*more.path.glob("runs/*")]) == 5
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert more.sample()[:4] == study.sample()
    assert more.finish().sets[0].models == 5


def test_what_was_half_written_is_done_again(study, book):
    scores = study.path / "scores.jsonl"
    lines = scores.read_bytes().splitlines(keepends=True)
    scores.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    again = worked(study.path, asked(book, models=4))
    told = [json.loads(line) for line in scores.read_text().splitlines()]
    assert sorted(row["number"] for row in told) == [0, 1, 2, 3]
    assert told[2]["scores"] == json.loads(lines[2])["scores"]
    again.finish()


def test_latencies_are_measured_once(study):
    seen = []

    def latency(config):
        seen.append(config.hash)
        return config.dim / 1000

    study.measure(latency)
    study.measure(latency)
    assert seen == [config.hash for config in study.sample()]
    (models,) = study.finish().sets
    assert models.points.latency == pytest.approx([config.dim / 1000 for config in study.sample()])
    assert all(proxy.front_distance >= 0 for proxy in models.proxies)


def test_a_model_that_diverges_is_left_out(book, tmp_path):
    from sublayer.executors.trainings import DIVERGED

    study = worked(tmp_path / "study", asked(book, proxies=("decoder_params",)))
    (tmp_path / "study" / "runs" / "0001" / DIVERGED).write_text('{"why": "step 2: the loss is nan"}')
    (models,) = study.finish().sets
    assert (models.models, models.dropped) == (3, 1)


def test_refusals(study, book, tmp_path):
    for what, other in (("seed", {"seed": 1}), ("proxies", {"proxies": ("snip",)}), ("steps", {"steps": 9})):
        with pytest.raises(ValueError, match=f"another study is there, with another {what}"):
            Study.begin(study.path, asked(book, **other))
    with pytest.raises(ValueError, match="models=2: expected 3 to 100,000"):
        asked(book, models=2)
    with pytest.raises(ValueError, match="unknown proxy 'snp'"):
        asked(book, proxies=("snp",))
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(ValueError, match="holds other files"):
        Study.begin(tmp_path, asked(book))
    with pytest.raises(ValueError, match="models=99: 36 different ones were found"):
        Study(tmp_path, asked(book, models=99)).sample()
    none = replace(asked(book), space=Space.of(config("gpt2"), {"dim": "32|64"}))
    with pytest.raises(ValueError, match=r"the space is empty: .* heads=12 does not divide dim="):
        Study(tmp_path, none).sample()
    with study.held(), pytest.raises(ValueError, match="another process is at work there"):
        Study.begin(study.path, asked(book))
    (study.path / "latency.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"latency\.jsonl: a line has no number, so it was damaged or edited"):
        study.finish()
    (study.path / "latency.jsonl").unlink()
    (study.path / "proxies.json").write_text(json.dumps({"format": 1, "seed": 0}))
    with pytest.raises(ValueError, match="its checksum does not match, so it was damaged or edited"):
        Study.begin(study.path, asked(book))
