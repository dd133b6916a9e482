"""The Python API, as one would type it."""

import sublayer
from tests.training import tiny


def test_ten_lines(book, tmp_path):
    small = {
        "s.heads": 2,
        "f.inner": 16,
        "train.steps": 2,
        "train.length": 16,
        "train.batch": 2,
        "data.tokenizer": "char",
    }
    run = sublayer.train("gpt2", str(book), tmp_path / "run", small, dim=16, layout="(sf)x2", quiet=True)
    assert sublayer.resume(run.path, {"train.steps": 3}, quiet=True).checkpoints[-1].step == 3
    trained = sublayer.load(run.path)
    text = trained.generate("line ", tokens=8, temperature=0.8, seed=1)
    assert len(text) == 8
    assert trained.generate("line ", tokens=8, temperature=0.8, seed=1) == text
    assert "".join(trained.stream("line ", tokens=8, temperature=0.8, seed=1)) == text
    assert trained.generate(["line ", "of"], tokens=8, temperature=0.8, seed=1)[0] == text
    assert sublayer.load(run.path, step=2).generate("line ", tokens=8, temperature=0)


def test_a_config_of_ones_own(book, tmp_path):
    config = sublayer.config("gpt2", {"s.heads": 2, "f.inner": 16}, dim=16, layout="(fs)x1 f")
    changes = {key: value for key, value in tiny.SMALL.items() if key.startswith("train.")}
    run = sublayer.train(config, str(book), tmp_path / "run", changes, quiet=True)
    assert run.model_config.stack == config.stack
