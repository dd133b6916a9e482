"""Cuts against their naive definitions; draws against the softmax."""

import math
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sublayer.generation import Sampling, generate
from sublayer.generation.sampling import block_ngrams, keep_min_p, keep_top_k, keep_top_p, penalise, pick
from sublayer.nn.config import ConfigError
from tests.generation.models import scores_after, writer

# Halves, so that ties are common.
scores = st.lists(st.integers(-12, 12).map(lambda n: n / 2), min_size=1, max_size=12)
shares = st.floats(0.01, 1.0)


def kept(cut_BV) -> set[int]:
    return {v for v, score in enumerate(cut_BV[0].tolist()) if score > -math.inf}


def softmax(row):
    most = max(row)
    weights = [math.exp(score - most) for score in row]
    return [weight / sum(weights) for weight in weights]


def by_probability(row):
    """Most probable first; of equals, the smaller id."""
    return sorted(range(len(row)), key=lambda v: (-row[v], v))


@given(scores, st.integers(1, 15))
def test_top_k_keeps_the_k_best_and_what_ties_with_them(row, k):
    least = sorted(row, reverse=True)[min(k, len(row)) - 1]
    assert kept(keep_top_k(torch.tensor([row]), k)) == {v for v, score in enumerate(row) if score >= least}


@given(scores, shares)
def test_top_p_keeps_the_fewest_that_sum_to_p(row, p):
    weights, chosen, mass = softmax(row), set(), 0.0
    for v in by_probability(row):
        if abs(mass - p) < 1e-9:  # on the very edge, rounding decides
            return
        if mass >= p:
            break
        chosen.add(v)
        mass += weights[v]
    assert kept(keep_top_p(torch.tensor([row], dtype=torch.float64), p)) == chosen


@given(scores, shares)
def test_min_p_keeps_what_is_probable_enough_beside_the_best(row, share):
    weights = softmax(row)
    if any(abs(weight - share * max(weights)) < 1e-9 for weight in weights):
        return
    chosen = {v for v, weight in enumerate(weights) if weight >= share * max(weights)}
    assert kept(keep_min_p(torch.tensor([row], dtype=torch.float64), share)) == chosen


@given(scores, st.sets(st.integers(0, 11)), st.floats(1.0, 5.0))
def test_repetition_makes_what_was_there_less_likely(row, seen, penalty):
    mask = torch.tensor([[v in seen for v in range(len(row))]])
    now = penalise(torch.tensor([row], dtype=torch.float64), mask, penalty)[0].tolist()
    naive = [s if v not in seen else s / penalty if s > 0 else s * penalty for v, s in enumerate(row)]
    assert now == pytest.approx(naive)


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 4))
def test_no_run_of_n_ids_comes_twice(said, n):
    runs = {tuple(said[i : i + n]) for i in range(len(said) - n + 1)}
    blocked = {v for v in range(4) if tuple([*said, v][-n:]) in runs and len(said) >= n - 1}
    assert kept(block_ngrams(torch.zeros(1, 4), [said], n)) == set(range(4)) - blocked


@given(scores, st.sampled_from([torch.float64, torch.float32, torch.bfloat16]))
def test_cuts_leave_the_odds_of_what_they_keep_and_never_cut_the_best(row, dtype):
    before = torch.tensor([row], dtype=dtype)  # halves are exact in all of them
    after = Sampling(temperature=1.0, top_k=3, top_p=0.7, min_p=0.2).shape(before)
    assert after.argmax() == before.argmax()
    left = after > -torch.inf
    assert torch.equal(after[left] - after.max(), (before[left] - before.max()).double())


@given(scores, st.floats(1e-320, 1e300))
def test_any_temperature_keeps_the_order(row, temperature):
    """From the coldest number there is to one that makes all equal, what is drawn from is a distribution."""
    weights = Sampling(temperature=temperature).shape(torch.tensor([row]))[0].softmax(0)
    assert float(weights.sum()) == pytest.approx(1)
    assert all(weights[a] >= weights[b] for a in range(len(row)) for b in range(len(row)) if row[a] > row[b])


def test_greedy_is_the_default_and_no_cut_changes_it():
    row = torch.tensor([[0.1, 2.0, -1.0]])
    assert Sampling().greedy
    assert pick(Sampling().shape(row)).tolist() == pick(Sampling(top_k=2, top_p=0.5).shape(row)).tolist() == [1]


def chance(drawn_N, weights_V) -> float:
    """How often draws by these weights would be at least as far from them as `drawn_N` are (χ² test)."""
    counts_V, expected_V = torch.bincount(drawn_N, minlength=len(weights_V)), weights_V.double() * len(drawn_N)
    alive_V = expected_V > 0
    assert not counts_V[~alive_V].any()
    assert expected_V[alive_V].min() >= 5
    chi2 = ((counts_V - expected_V)[alive_V] ** 2 / expected_V[alive_V]).sum()
    # P(χ² > x) = Γ(k/2, x/2)/Γ(k/2), the upper regularised incomplete gamma function.
    return float(torch.special.gammaincc((alive_V.sum().double() - 1) / 2, chi2 / 2))


DRAWS, RARE = 20_000, 1e-4
"""A right sampler fails at 1 seed in 10,000; seeds are fixed."""
NINE_1V = torch.randn(1, 9, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("sampling", [Sampling(temperature=1.0), Sampling(temperature=0.7, top_k=6, min_p=0.05)])
def test_draws_follow_the_softmax(sampling):
    shaped_1V, generator = sampling.shape(NINE_1V), torch.Generator().manual_seed(11)
    assert chance(pick(shaped_1V.expand(DRAWS, -1), [generator] * DRAWS), shaped_1V[0].softmax(0)) > RARE


def test_a_biased_draw_would_be_noticed():
    """What the test is good for: it sees a temperature that is off by a tenth."""
    generator = torch.Generator().manual_seed(11)
    drawn = pick((NINE_1V / 1.1).expand(DRAWS, -1), [generator] * DRAWS)
    assert chance(drawn, NINE_1V[0].softmax(0)) < RARE


def test_texts_with_seeds_in_a_row_follow_the_model():
    """Of a batch, whose rows have a generator each: the first ids, and the second ones after the likeliest first."""
    model, rows = writer("gpt2", vocab=6), 4000
    texts = torch.tensor(generate(model, [[1, 2]] * rows, tokens=2, sampling=Sampling(temperature=1.0)))
    assert chance(texts[:, 0], scores_after(model, [1, 2], []).softmax(0)) > RARE
    first = int(texts[:, 0].mode().values)
    after_N = texts[texts[:, 0] == first, 1]
    assert chance(after_N, scores_after(model, [1, 2], [first]).softmax(0)) > RARE


def test_a_draw_of_almost_one_lands_on_an_id_that_may_be_drawn():
    last = torch.tensor([1 - 2**-53], dtype=torch.float64)
    with mock.patch("torch.rand", return_value=last):
        assert pick(torch.tensor([[0.0, 0.0, -torch.inf]]), [torch.Generator()]).tolist() == [1]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("temperature", -0.1, "sampling.temperature: -0.1 is not a temperature, 0 for greedy or more"),
        ("top_k", 0, "sampling.top_k: 0 leaves no id to choose; use 1 or more, or leave it out for all"),
        ("top_p", 0.0, "sampling.top_p: 0.0 is not a probability above 0 and up to 1; 1 keeps all ids"),
        ("top_p", 1.1, "sampling.top_p: 1.1 is not a probability"),
        ("min_p", -1, "sampling.min_p: -1.0 is not a share from 0 to 1"),
        ("repetition", 0, "sampling.repetition: 0.0 is not a penalty above 0; 1 for none"),
        ("temperature", float("nan"), "sampling.temperature: input should be a finite number, got nan"),
        ("temperature", float("inf"), "sampling.temperature: input should be a finite number, got inf"),
        ("repetition", float("inf"), "sampling.repetition: input should be a finite number, got inf"),
    ],
)
def test_impossible_settings_are_refused_with_a_remedy(field, value, message):
    with pytest.raises(ConfigError) as caught:
        Sampling(**{field: value})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_are_data():
    sampling = Sampling(temperature=0.8, top_k=40)
    assert Sampling.from_json(sampling.to_json()) == sampling == Sampling.parse({"temperature": 0.8, "top_k": 40})
