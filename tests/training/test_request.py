"""What cannot be trained is said in one line, before anything is written."""

import pytest

import sublayer
from sublayer.nn.config import ConfigError
from sublayer.training import TrainConfig
from tests.training import tiny


@pytest.fixture
def refused(book, tmp_path):
    """`refused(pattern, train__stpes=3)`: nothing is there after it."""

    def refused(pattern, paper="gpt2", data=None, **changes):
        with pytest.raises(ValueError, match=pattern) as error:
            tiny.train(data or book, tmp_path / "run", paper, **changes)
        assert "\n" not in str(error.value)
        assert not (tmp_path / "run").exists()

    return refused


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train__stpes": 3}, "unknown key 'train.stpes'; did you mean train.steps"),
        ({"train__optimizer": "adamx"}, "unknown optimizer kind 'adamx'; did you mean adam, adamw"),
        ({"train__optimizer__beta9": 1}, r"optimizer\.beta9: there is no such field"),
        ({"train__schedule": "cosin"}, "unknown schedule kind 'cosin'; did you mean cosine"),
        ({"train__steps": None}, "steps, tokens and minutes are all none, so training would not end; set one of them"),
        ({"train__steps": 0}, "steps: input should be greater than or equal to 1, got 0"),
        ({"train__steps": "many"}, "steps: .*integer.*'many'"),
        ({"train__batch": 2.5}, "batch: .*integer.* got 2.5"),
        ({"train__lr": 0}, r"train\.lr: input should be greater than 0"),
        ({"train__lr": float("inf")}, r"train\.lr: input should be a finite number, got inf"),
        ({"train__optimizer__eps": float("inf")}, r"train\.optimizer\.eps: input should be a finite number"),
        ({"train__batch": 10**20}, r"train\.batch: input should be less than or equal to 1048576"),
        ({"train__accumulate": 10**20}, r"train\.accumulate: input should be less than or equal to 1048576"),
        ({"train__steps": 10**20}, r"train\.steps: input should be less than or equal to 9007199254740992"),
        ({"train__threads": 10**8}, r"train\.threads: input should be less than or equal to 1024, got 100000000"),
        ({"train__device": "meta"}, r"train\.device: 'meta' cannot be used: Cannot copy out of meta tensor"),
        ({"dim": 10**11, "s.heads": 2}, "dim=100000000000: .* parameters need .* GiB to train, and this machine has "),
        ({"train__smoothing": 1}, "smoothing: input should be less than 1"),
        ({"train__precision": "fp16"}, "precision: input should be 'fp32' or 'bf16', got 'fp16'"),
        ({"train__seed": -1}, "seed: input should be greater than or equal to 0"),
        ({"train__seed": 2**63}, "seed: input should be less than 9223372036854775808"),
        ({"train__grow_from": 17}, "grow_from=17 is more than length=16; rows grow, use less"),
        ({"train__device": "abacus"}, r"train\.device: 'abacus' cannot be used"),
        ({"train__length": 2000}, r"train\.length=2000: the model has 1024 learned positions; .*position\.limit=2000"),
        (
            {"train__carry": True},
            r"train\.carry: positions are counted on .* learned positions end; use train\.carry=false",
        ),
        ({"train__carry": True, "position": "rotary"}, r"train\.carry: the model remembers all .* s\.pattern=window"),
        ({"train__start": "nowhere"}, "nowhere: there is no such folder, expected a run"),
        ({"vocab": 10}, "vocab=10: the byte tokenizer has 256 ids; leave vocab out"),
        ({"vocab": "big"}, "vocab: .*integer"),
        ({"s.heads": 3}, "heads=3 does not divide dim=16"),
        ({"head": "classify"}, "head=classify: plain text has no answers to learn from; .* head=tied"),
        ({"head": "span"}, "head=span: plain text has no answers"),
        ({"data__tokenizer": "wrod"}, "unknown tokenizer kind 'wrod'; did you mean word"),
        ({"data__splits__valid": 2}, r"data\.splits\.valid: input should be less than 1"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_wrong_keys(refused, changes, said):
    refused(said, **changes)


def test_models_that_plain_text_does_not_train(refused):
    refused(
        r"encoder_decoder: has no objective for a text, which gives tokens; train .* \(decoder, encoder\)",
        "transformer",
    )
    refused("head=classify: plain text has no answers", "da-transformer", **{"s.heads": 2})
    refused("vocab=256: the byte tokenizer has 257 ids", "bert-base", vocab=256)


def test_too_little_text(refused, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("seventeen bytes.")
    refused("train: 14 tokens are too few for one window of 16 .*; use length=13 or less, or more text", data=short)
    refused("train: 14 tokens are too few for 2 lanes .*; use batch=1 or length=6", "transformer-xl", data=short)
    short.write_text("")
    refused(r"short\.txt: the text is empty; give one with something in it", data=short)
    refused(r"gone\.txt: there is no such file; give a file", data=tmp_path / "gone.txt")


@pytest.mark.parametrize("tokenizer", ["char", "word", "bpe"])
def test_a_binary_file_is_no_text(refused, tmp_path, tokenizer):
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 20)
    said = r"binary, byte 128: 0x80 is not UTF-8, .* use the byte tokenizer, which reads anything"
    refused(said, data=tmp_path / "binary", data__tokenizer=tokenizer)


def test_bytes_of_any_kind_are_read(tmp_path, book):
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 20)
    tiny.train(tmp_path / "binary", tmp_path / "run", train__steps=1)


def test_a_text_whose_valid_is_one_token(tmp_path, book):
    run = tiny.train(book, tmp_path / "run", train__steps=1, data__splits__valid=0.0004)
    assert tiny.losses(run)
    assert tiny.losses(run, "valid_loss") == []


def test_budgets_need_each_other_not():
    for one in ({"steps": 3}, {"tokens": 3}, {"minutes": 0.5}):
        assert TrainConfig().but({"steps": None, **one})
    with pytest.raises(ConfigError, match="set one of them"):
        TrainConfig(steps=None)


# A vocabulary that fits the text


def test_clusters_that_a_small_vocabulary_does_not_reach(tmp_path, book):
    config = tiny.train(book, tmp_path / "xl", "transformer-xl", train__steps=1).model_config
    paper = sublayer.config("transformer-xl")
    assert (config.vocab, config.embedding.tag, config.head.tag) == (256, "token", "tied")
    assert (config.embedding.scale, config.embedding.dropout) == (paper.embedding.scale, paper.embedding.dropout)
    assert config.head.bias == paper.head.bias


@pytest.mark.parametrize("cutoffs", [[10], [10, 20], [10, 20, 5000]], ids=str)
def test_clusters_that_it_reaches(tmp_path, book, cutoffs):
    model = sublayer.config("transformer-xl", {"embedding.cutoffs": cutoffs, "head.cutoffs": cutoffs})
    changes = tiny.changes("transformer-xl", data__tokenizer="char", train__steps=1)
    config = sublayer.train(model, str(book), tmp_path / "run", changes, quiet=True).model_config
    assert (config.embedding.cutoffs, config.head.cutoffs) == (tuple(cutoffs[:2]), tuple(cutoffs[:2]))
    assert config.vocab == 27


@pytest.mark.parametrize(
    "changes",
    [{"vocab": 300}, {"embedding.dropout": 0.0}, {"embedding": "token", "head": "linear"}, {"head.bias": False}],
    ids=str,
)
def test_what_is_asked_for_stays(tmp_path, book, changes):
    config = tiny.train(book, tmp_path / "run", "transformer-xl", train__steps=1, **changes).model_config
    assert config == config.but(changes)


def test_no_text_is_no_folder(tmp_path, monkeypatch):
    """An empty variable in a shell must not mean whatever lies here."""
    (tmp_path / "a.txt").write_text("some text " * 100)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"data: expected a file, a folder, .* got an empty text"):
        sublayer.train("gpt2", "", "run")


def test_a_run_must_not_lie_in_its_text(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("some text " * 100)
    monkeypatch.chdir(tmp_path)
    for data, out in ((".", "runs/a"), (str(tmp_path), "b")):
        with pytest.raises(ValueError, match=r"lies in .*, whose files are the text, so the run would read itself"):
            sublayer.train("gpt2", data, out)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
