"""Scores against the slow, obvious loop; what context each target has; what a text is read with."""

import numpy as np
import pytest
import torch

from sublayer.evaluation import by_length, by_position, score
from tests.evaluation.slow import PAPERS, ids_of, model_of, nats_in_one_pass, nats_of, window_start

EXACT = {"s.memory.span": "exact"}
WINDOW = {"s.pattern": {"kind": "window", "size": 4}}


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize(
    ("length", "stride", "batch"), [(7, None, None), (7, 3, 2), (5, 1, 4), (1, None, 3), (40, 9, 1)]
)
def test_equals_one_target_at_a_time(paper, length, stride, batch):
    model = model_of(paper)
    ids = ids_of(model, 24)
    slow = nats_of(model, ids, window_start(length, stride or length))
    fast = score(model, ids, length=length, stride=stride, batch=batch, carry=False if stride is None else None)
    assert fast.tokens == 23
    assert fast.nats == pytest.approx(sum(slow), rel=1e-12)


@pytest.mark.parametrize("head", [{"kind": "mixture", "components": 3}, {"kind": "linear", "bias": True}])
def test_any_head_over_words(head):
    model = model_of("llama", head=head)
    ids = ids_of(model, 17)
    assert score(model, ids, length=6).nats == pytest.approx(sum(nats_of(model, ids, window_start(6, 6))), rel=1e-12)


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("stride", [None, 2])
def test_the_batch_changes_nothing(paper, stride):
    model = model_of(paper)
    ids = ids_of(model, 38)
    found = [score(model, ids, length=5, stride=stride, batch=batch, carry=False) for batch in (1, 2, 3, 100)]
    assert all(one.nats == pytest.approx(found[0].nats, rel=1e-12) and one.tokens == 37 for one in found)


@pytest.mark.parametrize("paper", ["gpt2", "llama", "alibi"])
def test_a_stride_of_one_is_the_full_context(paper):
    model = model_of(paper)
    ids = ids_of(model, 19)
    whole = nats_in_one_pass(model, ids)
    for length in (18, 19, 90):
        assert score(model, ids, length=length, stride=1).nats == pytest.approx(whole, rel=1e-12)
        assert score(model, ids, length=length).nats == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("length", [1, 4, 7, 50])
@pytest.mark.parametrize(
    ("paper", "changes"),
    [("transformer-xl", EXACT), ("llama", WINDOW), ("alibi", WINDOW)],
    ids=["exact", "rope", "alibi"],
)
def test_carrying_equals_one_long_pass(paper, changes, length):
    model = model_of(paper, **changes)
    ids = ids_of(model, 31)
    found = score(model, ids, length=length, carry=True)
    assert found.nats == pytest.approx(nats_in_one_pass(model, ids), rel=1e-10)


def test_carrying_by_the_papers_span_equals_the_pass_that_states_it():
    model = model_of("transformer-xl")
    ids = ids_of(model, 31)
    whole = nats_in_one_pass(model, ids, segments=(7, 7, 7, 7, 2))
    assert score(model, ids, length=7, carry=True).nats == pytest.approx(whole, rel=1e-10)
    assert score(model, ids, length=7).nats == pytest.approx(whole, rel=1e-10)  # what it was made for
    assert score(model, ids, length=7, carry=False).nats != pytest.approx(whole, rel=1e-4)


def test_only_a_segment_memory_is_carried_unasked():
    model = model_of("llama", **WINDOW)
    ids = ids_of(model, 31)
    assert score(model, ids, length=7).nats == score(model, ids, length=7, carry=False).nats


def test_lanes_each_begin_without_memory():
    model = model_of("transformer-xl")
    ids = ids_of(model, 30)  # 29 targets: lanes of 10, 10 and 9
    alone = [score(model, ids[start : start + 11], length=4).nats for start in (0, 10, 20)]
    found = score(model, ids, length=4, batch=3)
    assert found.tokens == 29
    assert found.nats == pytest.approx(sum(alone), rel=1e-12)


def test_another_memory_than_trained_with():
    model = model_of("transformer-xl")
    ids = ids_of(model, 40)
    longer = model_of("transformer-xl", **{"s.memory.length": 11})
    longer.load_state_dict(model.state_dict())
    before, drawn = model.state_dict(), torch.random.get_rng_state()
    found = score(model, ids, length=4, memory=11)
    assert found.nats == pytest.approx(score(longer, ids, length=4).nats, rel=1e-12)
    assert found.nats != pytest.approx(score(model, ids, length=4).nats, rel=1e-6)
    assert score(model, ids, length=4, memory=5).nats == score(model, ids, length=4).nats
    assert score(model, ids, length=4, memory=0).nats == score(model, ids, length=4, carry=False).nats
    assert model.config.stack.alphabet["s"].memory.length == 5
    assert all(now is not None and torch.equal(now, before[name]) for name, now in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_a_limit_scores_the_beginning():
    model = model_of("llama")
    ids = ids_of(model, 40)
    slow = nats_of(model, ids, window_start(6, 6))
    found = score(model, ids, length=6, limit=17)
    assert (found.tokens, found.nats) == (17, pytest.approx(sum(slow[:17]), rel=1e-12))
    assert score(model, ids, length=6, limit=1000).nats == pytest.approx(sum(slow), rel=1e-12)


def test_the_model_is_left_as_it_was():
    model = model_of("gpt2").train()
    model.stack.sublayers[1].eval()
    modes = [module.training for module in model.modules()]
    ids = ids_of(model, 20)
    first = score(model, ids, length=6)
    assert [module.training for module in model.modules()] == modes
    assert first == score(model, ids, length=6)  # no dropout

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(model, ids, length=6, on_batch=stop)
    assert [module.training for module in model.modules()] == modes
    assert torch.is_grad_enabled()
    assert all(weight.grad is None for weight in model.parameters())


def test_progress_is_told():
    model, told = model_of("llama"), []
    ids = ids_of(model, 24)
    score(model, ids, length=5, batch=2, on_batch=lambda *said: told.append(said))
    assert told == [(10, 23), (20, 23), (23, 23)]
    told.clear()
    by_length(model, ids, [12, 23], batch=1, on_batch=lambda *said: told.append(said))
    assert told == [(12, 46), (23, 46), (46, 46)]


@pytest.mark.parametrize("paper", PAPERS)
def test_by_position(paper):
    model = model_of(paper)
    ids = ids_of(model, 38)
    slow = nats_of(model, ids, window_start(7, 7))
    found = by_position(model, ids, length=7, carry=False)
    assert (found.shape, found.dtype) == ((7,), np.float64)
    np.testing.assert_allclose(found, [np.mean(slow[place::7]) for place in range(7)], rtol=1e-12)


def test_by_position_of_a_carried_memory_and_of_a_short_text():
    model = model_of("transformer-xl")
    ids = ids_of(model, 36)
    lanes = by_position(model, ids, length=7, batch=2)  # of 18 and 17 targets
    nats = score(model, ids, length=7, batch=2).nats
    assert lanes @ [6, 6, 6, 5, 4, 4, 4] == pytest.approx(nats, rel=1e-12)
    one = by_position(model, ids, length=7)  # five whole segments: all places count alike
    assert one.mean() == pytest.approx(score(model, ids, length=7).loss, rel=1e-12)
    assert len(by_position(model, ids[:4], length=7)) == 3
    assert len(by_position(model, ids[:9], length=7, batch=4)) == 2


def test_by_length():
    model = model_of("alibi")
    ids = ids_of(model, 60)
    found = by_length(model, ids, [7, 14, 28])
    assert list(found) == [7, 14, 28]
    assert all(one == score(model, ids, length=length) and one.tokens == 59 for length, one in found.items())


@pytest.mark.parametrize(
    ("paper", "count", "how", "said"),
    [
        ("llama", 20, {"stride": 8, "length": 7}, r"stride=8: .*length=7 .*; use a stride up to 7"),
        ("llama", 20, {"stride": 0}, r"stride=0: expected at least 1"),
        ("llama", 20, {"stride": -1}, r"stride=-1: expected at least 1"),
        ("llama", 20, {"length": 0}, r"length=0: expected at least 1"),
        ("llama", 20, {"batch": 0}, r"batch=0: expected at least 1"),
        ("llama", 20, {"limit": 0}, r"limit=0: expected at least 1 target"),
        ("llama", 1, {}, r"tokens: 1 token, at least 2 are needed"),
        ("transformer-xl", 20, {"stride": 2, "carry": True}, r"stride=2, carry=True: .*use one of the two"),
        ("transformer-xl", 20, {"stride": 2, "memory": 9}, r"stride=2, memory=9: .*leave out one"),
        ("transformer-xl", 20, {"memory": 0, "carry": True}, r"memory=0, carry=True: contradict"),
        ("transformer-xl", 20, {"memory": -3}, r"memory=-3: expected 0"),
        ("llama", 20, {"memory": 9}, r"memory=9: the model has no segment memory"),
        ("llama", 20, {"carry": True}, r"carry: the model's cache holds all .*use stride"),
        ("gpt2", 200, {"length": 177}, r"length=177: the model has 176 learned positions; use lengths up to 176"),
        (
            "gpt2",
            200,
            {"carry": True},
            r"carry: the text goes on to position 199, .*176 learned positions; use carry=False",
        ),
    ],
    ids=lambda value: " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_refused_in_one_line(paper, count, how, said):
    model = model_of(paper)
    with pytest.raises(ValueError, match=said) as error:
        score(model, ids_of(model, count), **{"length": 7, **how})
    assert "\n" not in str(error.value)


def test_a_length_that_cannot_be_is_refused_before_any_is_tried():
    model, told = model_of("gpt2"), []
    with pytest.raises(ValueError, match="length=192: the model has 176 learned positions"):
        by_length(model, ids_of(model, 300), [48, 96, 192], on_batch=lambda *said: told.append(said))
    assert not told
    assert score(model, ids_of(model, 50), length=1000).tokens == 49  # a short text fits
    with pytest.raises(ValueError, match="lengths: none given"):
        by_length(model, ids_of(model, 300), [])


def test_models_that_predict_no_next_token_are_refused():
    import sublayer
    from sublayer.testing import small

    ids = np.arange(9)
    for paper in ("bert-base", "transformer"):
        with pytest.raises(ValueError, match="only a decoder predicts"):
            score(small(sublayer.config(paper)).build(), ids, length=4)
    with pytest.raises(ValueError, match="head classify: has 3 classes, expected the vocabulary of 61"):
        score(model_of("llama", head={"kind": "classify", "classes": 3}), ids, length=4)


def test_ids_that_are_none_are_refused():
    model = model_of("llama")
    for ids in (np.zeros((2, 9), np.int64), np.zeros(9)):
        with pytest.raises(ValueError, match="expected ids in one row"):
            score(model, ids, length=4)
    with pytest.raises(ValueError, match="61"):
        score(model, np.array([1, 2, 61]), length=4)


def test_low_precision_is_summed_in_high():
    model = model_of("llama")
    ids = ids_of(model, 40)
    exact = score(model, ids, length=8).loss
    assert score(model.float(), ids, length=8).loss == pytest.approx(exact, rel=1e-5)
    assert score(model.bfloat16(), ids, length=8).loss == pytest.approx(exact, rel=2e-2)
