"""Building: killed at any moment it goes on to the same bits; what is damaged, foreign or too large is refused."""

import errno
import os
import random

import numpy as np
import pytest
import torch

import sublayer
from sublayer.retrieval import Store
from sublayer.retrieval.own_text import own_shift
from sublayer.retrieval.writer import KeyWriter
from tests.retrieval.stores import built, trained
from tests.training.killing import live


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """A checkpoint for every batch."""
    monkeypatch.setattr("sublayer.retrieval.make_store.SAVED_EVERY", 1)
    monkeypatch.setattr("sublayer.evaluation.protocol.AT_ONCE", 256)


@pytest.fixture(scope="module")
def runs(book):
    return {kind: trained(book, book.parent / kind, kind) for kind in ("gpt2", "transformer-xl")}


def files(folder):
    return {
        path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize("kind", ["gpt2", "transformer-xl"])
def test_killed_it_goes_on_to_the_same_bits(runs, kind, tmp_path):
    run, dice = runs[kind], random.Random(kind)
    how = {"limit": 1500} if kind == "gpt2" else {"limit": 100}
    whole = live(lambda: built(run, tmp_path / "whole", **how), tmp_path / "whole")
    assert whole is not None
    for number in range(2):
        out = tmp_path / str(number)
        for event in (dice.randint(1, whole.events), dice.randint(1, max(2, whole.events // 2))):
            live(lambda out=out: built(run, out, **how), out, event=event)
        assert live(lambda out=out: built(run, out, **how), out)
        assert files(out) == files(tmp_path / "whole")


def test_a_full_disk_is_one_line_and_loses_nothing(runs, tmp_path, monkeypatch):
    def full(handle):
        if os.readlink(f"/proc/self/fd/{handle}").endswith("keys.bin"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ValueError, match=r"keys\.bin: cannot be written: No space left.*it goes on"):
            built(runs["gpt2"], tmp_path / "store", limit=500)
    assert len(built(runs["gpt2"], tmp_path / "store", limit=500)) == 500


@pytest.mark.parametrize("size", [1e-7, 1.0, 1e9])
def test_half_precision_holds_keys_of_any_size(size, tmp_path):
    keys_ND = size * torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    writer = KeyWriter(tmp_path, "float16", np.dtype("<u4"), 8)
    writer.open(None)
    writer.add(keys_ND, np.arange(20) + 70_000)
    with pytest.raises(ValueError, match=r"do not fit into half precision .*float32"):
        writer.add(1e4 * keys_ND, np.arange(20))
    with pytest.raises(ValueError, match="not all are numbers"):
        writer.add(torch.nan * keys_ND, np.arange(20))
    writer.close()
    stored = np.fromfile(tmp_path / "keys.bin", np.float16).reshape(20, 4).astype(np.float32) / writer.scale
    np.testing.assert_allclose(stored, keys_ND, rtol=1e-3, atol=1e-5 * size)
    assert np.fromfile(tmp_path / "tokens.bin", "<u4").tolist() == list(range(70_000, 70_020))


@pytest.mark.parametrize("damage", ["keys.bin", "tokens.bin", "store.json", "cut", "missing"])
def test_damage_is_named(runs, tmp_path, damage):
    store = built(runs["gpt2"], tmp_path / "store", limit=300)
    path = store.path / ("keys.bin" if damage in ("cut", "missing") else damage)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink() if damage == "missing" else path.write_bytes(data[:-1] if damage == "cut" else data)
    with pytest.raises(ValueError, match=rf"{path.name}: .*damaged") as error:
        Store.open(store.path)
    assert "\n" not in str(error.value)


def test_a_store_of_others_is_refused(runs, book, tmp_path):
    gpt2 = runs["gpt2"]
    store = built(gpt2, tmp_path / "store", limit=300)
    other = trained(book, tmp_path / "seed", train__seed=1)
    chars = trained(book, tmp_path / "chars", **{"data.tokenizer": "char"})
    for run, answer in ((other, "config or weights are others"), (chars, "tokenizer is another")):
        with pytest.raises(ValueError, match=answer):
            run.mixture([store.path])
    with pytest.raises(ValueError, match=r"neighbours=301: expected 1 to 300"):
        gpt2.mixture([store.path], neighbours=301)
    with pytest.raises(ValueError, match=r"lambda=1\.5: expected a share"):
        gpt2.mixture([store.path], share=1.5)
    with pytest.raises(ValueError, match=r"another datastore is there"):
        built(gpt2, tmp_path / "store", limit=200)
    final = built(gpt2, tmp_path / "final", limit=300, key="final")
    with pytest.raises(ValueError, match=r"same --key"):
        gpt2.mixture([store.path, final.path])


@pytest.mark.parametrize("tokenizer", ["bpe", "word"])
def test_a_token_is_found_where_it_is_in_the_store(book, tmp_path, tokenizer):
    """Whatever splits of one text are stored and scored, entries and tokens are brought together, or are apart."""
    more = {"data.tokenizer.size": 300} if tokenizer == "bpe" else {}
    run = trained(book, tmp_path / "run", **{"data.tokenizer": tokenizer, **more})
    text, path = sublayer.evaluation, str(book)

    def shift_of(store, scored):
        return own_shift(store, scored.tokens, run.tokenizer)

    train = built(run, tmp_path / "train")
    whole = built(run, tmp_path / "all", data=path)
    assert shift_of(train, text.own_text(run.run, "train")) == -1
    assert shift_of(train, text.own_text(run.run, "valid")) is None
    assert shift_of(train, text.other_text(path, run.tokenizer)) == -1
    for split in ("train", "valid", "test"):
        scored = text.own_text(run.run, split)
        tokens, shift = scored.tokens, shift_of(whole, scored)
        assert shift is not None
        before = tokens.part.start / len(tokens.part.text.bytes) * len(whole)
        assert shift == pytest.approx(before, abs=4)
        at = np.arange(8, len(tokens) - 8)
        assert (whole.tokens[at + shift] == tokens.ids[at]).all()
