"""Beam search against trying everything, and what its options promise."""

import functools
import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from sublayer.generation import Beam, beam_search, generate
from sublayer.nn.config import ConfigError
from tests.generation.models import SOURCE, scores_after, source_of, writer

V, TOKENS, EOS = 3, 4, 2


def everything(model, prompt, source=None):
    """Every text that ends with the end, or has as many ids as allowed, with its log-probability."""
    after = functools.cache(lambda said: F.log_softmax(scores_after(model, prompt, said, source), 0).tolist())
    texts = [ids for length in range(1, TOKENS + 1) for ids in itertools.product(range(V), repeat=length)]
    whole = [ids for ids in texts if EOS not in ids[:-1] and (ids[-1] == EOS or len(ids) == TOKENS)]
    return {ids: sum(after(ids[:n])[i] for n, i in enumerate(ids)) for ids in whole}


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl", "transformer", "gtrxl"])
def test_a_wide_beam_is_exhaustive(paper):
    words = {"embedding": "token", "head": "tied"} if paper in ("transformer-xl", "gtrxl") else {}
    model, prompts = writer(paper, torch.float64, vocab=V, **words), [[0, 1, 1], [1]]
    source = [[0, 2, 1], [1, 0]] if paper == "transformer" else None
    texts = [everything(model, prompt, source and source[n]) for n, prompt in enumerate(prompts)]
    for penalty, alpha in itertools.product(("gnmt", "power"), (0.0, 0.6, 1.5)):
        search = Beam(width=V**TOKENS, penalty=penalty, alpha=alpha)
        found = beam_search(model, prompts, tokens=TOKENS, search=search, eos=EOS, source=source)
        for n, log_probs in enumerate(texts):
            ranked = sorted(log_probs, key=lambda ids: -log_probs[ids] / search.lp(len(ids)))
            assert len(found[n]) == len(ranked)
            expected = [log_probs[ids] / search.lp(len(ids)) for ids in ranked]
            assert [text.score for text in found[n]] == pytest.approx(expected, abs=1e-9)
            assert found[n][0].ids == [i for i in ranked[0] if i != EOS]
            assert found[n][0].log_prob == pytest.approx(log_probs[ranked[0]])


@pytest.mark.parametrize("paper", ["gpt2", "llama", "transformer-xl", "gtrxl", "shaw"])
def test_a_beam_of_one_is_greedy(paper):
    model = writer(paper)
    options = {"tokens": 6, **source_of(model, 2)}
    found = beam_search(model, [[1, 2], [3]], search=Beam(width=1), **options)
    assert [text.ids for (text,) in found] == generate(model, [[1, 2], [3]], **options)


def test_a_stop_sequence_ends_a_text_and_counts_in_its_probability():
    """Among all texts of so many ids, cut where a stop is first met."""
    model, prompt, stops = writer("gpt2", torch.float64, vocab=V), [0, 1], [(1, 0), (2, 2, 2)]
    after = functools.cache(lambda said: F.log_softmax(scores_after(model, prompt, said), 0).tolist())
    whole = {}
    for ids in itertools.product(range(V), repeat=TOKENS):
        cut = next((n for n in range(1, TOKENS) if any(ids[:n][-len(stop) :] == stop for stop in stops)), TOKENS)
        whole[ids[:cut]] = sum(after(ids[:n])[i] for n, i in enumerate(ids[:cut]))
    search = Beam(width=V**TOKENS, alpha=1.0)
    (found,) = beam_search(model, [prompt], tokens=TOKENS, search=search, stop=stops)
    ranked = sorted(whole, key=lambda ids: -whole[ids] / search.lp(len(ids)))
    assert [text.log_prob for text in found] == pytest.approx([whole[ids] for ids in ranked])
    for text, ids in zip(found, ranked, strict=True):
        end = next((len(stop) for stop in stops if ids[-len(stop) :] == stop), 0)
        assert text.ids == list(ids[: len(ids) - end])


@pytest.mark.parametrize("native", [True, False], ids=["native", "bare"])
@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl-24", "transformer"])
def test_prompts_together_are_searched_as_each_alone(paper, native):
    model, prompts = writer(paper), [[1, 2, 3, 4], [5], [6, 7]]
    options = {"tokens": 7, "search": Beam(width=3), "stop": [4, [9, 9], [7, 1]], "native": native}
    together = beam_search(model, prompts, **options, **source_of(model, 3))
    for n, prompt in enumerate(prompts):
        (alone,) = beam_search(
            model, [prompt], **options, **({"source": [SOURCE[n]]} if paper == "transformer" else {})
        )
        assert [text.ids for text in together[n]] == [text.ids for text in alone]
        assert [text.score for text in together[n]] == pytest.approx([text.score for text in alone], abs=1e-4)


def test_a_text_is_scored_by_what_the_model_says_of_it():
    model = writer("alibi", torch.float64)
    for text in beam_search(model, [[1, 2]], tokens=6, search=Beam(width=3, alpha=1.0, penalty="power"))[0]:
        steps = [F.log_softmax(scores_after(model, [1, 2], text.ids[:n]), 0)[i] for n, i in enumerate(text.ids)]
        assert text.log_prob == pytest.approx(float(sum(steps)))
        assert text.score == pytest.approx(text.log_prob / 6)


@given(st.integers(1, 3), st.integers(0, 50))
def test_no_run_of_ids_comes_twice(n, seed):
    model = writer("gpt2", vocab=6, seed=seed)
    prompt = [1, 2, 1]
    for text in beam_search(model, [prompt], tokens=12, search=Beam(width=3, ngram=n))[0]:
        said = [*prompt, *text.ids]
        fresh = [tuple(said[i : i + n]) for i in range(len(said) - n + 1)]
        before = {tuple(prompt[i : i + n]) for i in range(len(prompt) - n + 1)}
        assert len(set(fresh)) == len(fresh) - (len(prompt) - n + 1 - len(before))


def test_a_text_ends_where_every_id_is_blocked():
    (texts,) = beam_search(writer("gpt2", vocab=4), [[0]], tokens=12, search=Beam(width=2, ngram=1))
    assert all(sorted([0, *text.ids]) == [0, 1, 2, 3] for text in texts)


@given(seed=st.integers(0, 50), width=st.integers(1, 4), early=st.booleans())
def test_hypotheses_are_distinct_ranked_and_end_once(seed, width, early):
    model = writer("gpt2", vocab=5, seed=seed)
    (texts,) = beam_search(model, [[1]], tokens=8, search=Beam(width=width, early=early), eos=2)
    assert 1 <= len(texts) <= width
    assert [text.score for text in texts] == sorted((text.score for text in texts), reverse=True)
    assert len({tuple(text.ids) for text in texts}) == len(texts)
    assert all(2 not in text.ids and len(text.ids) <= 8 and math.isfinite(text.score) for text in texts)


@given(seed=st.integers(0, 50))
def test_stopping_early_never_finds_a_better_text(seed):
    model = writer("gpt2", vocab=5, seed=seed)
    early, patient = (
        beam_search(model, [[1]], tokens=8, search=Beam(width=3, early=early), eos=2)[0][0] for early in (True, False)
    )
    assert early.score <= patient.score + 1e-5


def test_a_patient_search_stops_once_nothing_can_improve():
    """With a certain end, the search does not go on to the last id."""
    model = writer("gpt2", vocab=5)
    reads = []
    embedding = type(model.embedding)
    original = embedding.read

    def counted(self, ids):
        reads.append(ids)
        return original(self, ids)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding, "read", counted)
        beam_search(model, [[1]], tokens=60, search=Beam(width=2, alpha=0.0), stop=range(5))
    assert len(reads) == 1


def test_asking_for_nothing_gives_the_empty_text():
    ((text,),) = beam_search(writer("gpt2"), [[1]], tokens=0)
    assert text.ids == []


def test_impossible_searches_are_refused():
    with pytest.raises(ConfigError, match=r"beam.width: .* greater than or equal to 1, got 0"):
        Beam(width=0)
    with pytest.raises(ConfigError, match=r"beam.alpha: .* less than or equal to 10, got 1000"):
        Beam(alpha=1000)
