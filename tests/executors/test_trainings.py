"""Trainings by a pool: ordinary runs, to the same bits wherever they are trained; what is done is not done again."""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer import executors
from sublayer.executors import trainings
from sublayer.executors.archive import pack, unpack
from sublayer.executors.trainings import is_done, scores, sent, train_all, trained
from sublayer.runs import Run
from tests.executors.asked import task
from tests.training import tiny
from tests.training.killing import live


def test_a_training_by_a_pool_is_an_ordinary_run(book, tmp_path):
    expected = tiny.train(book, tmp_path / "plain")
    with executors.pool() as pool:
        ((index, run),) = train_all(pool, [task(book, tmp_path / "pool")])
    assert index == 0
    assert tiny.files(run.path) == tiny.files(expected.path)
    unpack(sent(task(book, tmp_path / "elsewhere")), tmp_path / "sent")
    assert tiny.files(tmp_path / "sent") == tiny.files(expected.path)
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_done_is_not_done_again(book, tmp_path, monkeypatch):
    tasks = [task(book, tmp_path / str(seed), seed=seed) for seed in range(3)]
    with executors.pool() as pool:
        made = [index for index, _ in train_all(pool, tasks[1:2])]
        assert made == [0]
        begun = []
        monkeypatch.setattr(
            trainings, "begin", lambda *asked, **how: begun.append(asked[2].name) or begin(*asked, **how)
        )
        assert [index for index, _ in train_all(pool, tasks)] == [1, 0, 2]
        assert begun == ["0", "2"]
        assert [index for index, _ in train_all(pool, tasks)] == [0, 1, 2]


begin = trainings.begin


@pytest.mark.parametrize("how", [{}, {"average": 2, "save_every": 1}, {"steps": None, "tokens": 100}])
@pytest.mark.parametrize("event", [5, 20, 45])
def test_killed_anywhere_it_goes_on(book, tmp_path, event, how):
    asked = task(book, tmp_path / "run", **how)
    trained(task(book, tmp_path / "whole", **how))
    assert live(lambda: trained(asked), tmp_path / "run", event=event) is None
    assert not is_done(tmp_path / "run")
    assert live(lambda: trained(asked), tmp_path / "run")
    assert is_done(tmp_path / "run")
    assert tiny.files(tmp_path / "run") == tiny.files(tmp_path / "whole")


def test_another_training_in_its_place_is_refused(book, tmp_path):
    trained(task(book, tmp_path / "run"))
    with pytest.raises(ValueError, match=r"was trained with train\..*; ask for the same"):
        trained(task(book, tmp_path / "run", steps=9))
    with pytest.raises(ValueError, match=r"was trained with train\.lr=.*; ask for the same"):
        list(train_all(executors.pool(), [task(book, tmp_path / "run", lr=0.5)]))


def test_a_text_that_is_not_the_one_is_refused_and_names_the_machine(book, tmp_path):
    with pytest.raises(ValueError, match="not the text that was asked for"):
        trained({**task(book, tmp_path / "run"), "text": "another"})
    with pytest.raises(ValueError, match=r"^on .*no\.txt.* Every machine of the cluster must find the text"):
        sent(task(tmp_path / "no.txt", tmp_path / "run"))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("diverged.json", "{", r"diverged\.json: cannot be read: .* put it back"),
        ("diverged.json", "[]", r"diverged\.json: not an object of JSON"),
        ("diverged.json", "{}", r"diverged\.json: no why in it; it was damaged or edited, put it back"),
        ("clock.jsonl", "{}\n", r"clock\.jsonl: no seconds in its last line; it was damaged or edited, put it back"),
        ("metrics.jsonl", "", r"metrics\.jsonl: no score on valid in it, though its run has ended; it was damaged"),
    ],
)
def test_damaged_files_of_a_run_that_is_done(book, tmp_path, name, text, said):
    trained(task(book, tmp_path / "run"))
    (tmp_path / "run" / name).write_text(text)
    with pytest.raises(ValueError, match=said) as error:
        [scores(run) for _, run in train_all(executors.pool(), [task(book, tmp_path / "run")])]
    assert "\n" not in str(error.value)


def test_one_that_diverges_is_done_and_says_why(book, tmp_path):
    asked = task(book, tmp_path / "run", lr=1e4, clip=None, warmup=0, steps=40, log_every=1)
    with executors.pool() as pool:
        ((_, run),) = train_all(pool, [asked])
    assert is_done(run.path)
    assert "train again with a lower train.lr" in str(trainings.why_diverged(run))
    assert trainings.why_diverged(Run(tmp_path)) is None


@given(files=st.dictionaries(st.text("abc", min_size=1, max_size=3), st.binary(max_size=50), max_size=4))
def test_an_archive_holds_what_was_packed(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    for name, data in files.items():
        path = folder / "from" / name / "inside"
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    (folder / "from").mkdir(exist_ok=True)
    (folder / "from" / ".lock").touch()
    out = unpack(pack(folder / "from"), folder / "to")
    assert {path.parent.name: path.read_bytes() for path in out.rglob("inside")} == files
    assert not (out / ".lock").exists()
    with pytest.raises(ValueError, match="the folder is not empty") if files else pytest.MonkeyPatch.context():
        unpack(pack(folder / "from"), out)


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", "a\\b", "."])
def test_an_archive_writes_nowhere_else(name, tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("good"))
        tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(ValueError, match="so the archive is not unpacked"):
        unpack(packed.getvalue(), tmp_path / "in" / "run")
    assert list(tmp_path.rglob("*")) == [tmp_path / "in"]


def test_links_and_torn_archives_are_refused(tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(ValueError, match="not a plain file"):
        unpack(packed.getvalue(), tmp_path / "run")
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "file").write_bytes(b"x" * 5000)
    with pytest.raises(ValueError, match="cannot be read"):
        unpack(pack(tmp_path / "from")[:3000], tmp_path / "run")
    assert not (tmp_path / "run").exists()
