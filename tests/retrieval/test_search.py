"""What is found: by exact search as by comparing everything, never a token itself, from several stores at once."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sublayer
from sublayer.cli.words import read_value
from sublayer.retrieval.index import exact
from sublayer.retrieval.neighbours import brute_force, search
from sublayer.retrieval.tuning import best_share
from tests.retrieval.stores import built, drawn, trained


@pytest.fixture(scope="module")
def run(book):
    return trained(book, book.parent / "run")


@pytest.fixture(scope="module")
def store(run, book):
    return built(run, book.parent / "store")


@given(seed=st.integers(0, 99), keys=st.sampled_from([1, 50, 64, 300, 640, 1280]), count=st.integers(1, 12))
def test_the_smallest_scores_are_found_piece_by_piece(seed, keys, count):
    """Also where scores are equal, and where none is better than what is known."""
    scores_QP = torch.randint(50, (3, keys), generator=torch.Generator().manual_seed(seed)).float()
    worst_Q = torch.tensor([torch.inf, 25.0, -1.0])
    found_QC, at_QC = exact.smallest(scores_QP, min(count, keys), worst_Q)
    for row in range(3):
        expected = sorted(scores_QP[row].tolist())[: min(count, keys)]
        better = [score for score in expected if score < worst_Q[row]]
        assert found_QC[row].tolist()[: len(better)] == better
        assert scores_QP[row, at_QC[row]].tolist() == found_QC[row].tolist()


@pytest.mark.parametrize("neighbours", [1, 16, 500])
def test_probabilities_are_those_of_brute_force(tmp_path, neighbours, monkeypatch):
    """Over many pieces of a file, and over two stores."""
    monkeypatch.setattr("sublayer.retrieval.index.exact.PIECE", 640)
    monkeypatch.setattr("sublayer.retrieval.index.exact.STEP", 128)
    monkeypatch.setattr("sublayer.retrieval.index.exact.QUERIES", 5)
    monkeypatch.setattr("sublayer.retrieval.vectors.WINDOW", 4096)
    one, other = drawn(tmp_path / "one", 1500), drawn(tmp_path / "other", 400, dtype="float32", seed=1)
    query_QD = torch.randn(12, 12, generator=torch.Generator().manual_seed(2))
    for stores in ([one], [one, other]):
        found = search(stores, query_QD, neighbours)
        for temperature in (0.05, 4.0):
            probability_QV = found.probabilities(256, temperature)
            assert probability_QV.sum(1) == pytest.approx(1)
            for query, probability_V in zip(query_QD, probability_QV, strict=True):
                expected_V = brute_force(stores, query, neighbours, temperature, 256)
                np.testing.assert_allclose(probability_V, expected_V, atol=1e-6)


def test_no_token_finds_itself(run, store, book):
    """Every key of the store is asked for; each has itself at distance 0, and perhaps equals."""
    ids_N = np.arange(len(store))
    query_ND = store.keys.rows(ids_N) / store.facts.scale
    assert (search([store], query_ND, 4).distance_QK[:, 0] == 0).all()
    found = search([store], query_ND, 4, [ids_N])
    assert (found.entry_QK != ids_N[:, None]).all()
    assert (found.entry_QK >= 0).all()
    looking = {"datastore": [store.path], "neighbours": 1, "share": 0.9, "temperature": 1e-3}
    own = sublayer.evaluate(run.run.path, split="train", **looking).figures["loss"]
    copy = sublayer.evaluate(run.run.path, str(book), **looking, limit=len(store)).figures["loss"]
    assert own == pytest.approx(copy, rel=1e-6), "a text that begins with the store's is known, too"


def test_lambda_0_is_the_model_alone_to_the_last_bit(run, store):
    alone = sublayer.evaluate(run.run.path).figures
    assert sublayer.evaluate(run.run.path, datastore=[store.path], share=0.0).figures == alone
    mixture = run.mixture([store.path], share=0.0)
    assert run.generate("line", tokens=20, mixture=mixture) == run.generate("line", tokens=20)


@pytest.mark.parametrize(("key", "kind"), [("feedforward", "plain"), ("final", "plain"), ("feedforward", "reversible")])
def test_scores_are_those_of_the_mixture_of_each_target(book, tmp_path, key, kind):
    """Target by target: the model's own probability, the key of its context as the stack computes it, brute force."""
    run = trained(book, tmp_path / "run", stack=kind)
    store = built(run, tmp_path / "store", key=key, limit=90)
    mixture = run.mixture([store.path], neighbours=12, share=0.4, temperature=2.0)
    tokens = sublayer.evaluation.own_text(run.run, "valid").tokens
    model, ids = run.model, torch.from_numpy(tokens.ids[:9].astype(np.int64))
    seen = {}
    norm = model.stack.sublayers[-1].norm if key == "feedforward" else model.stack.final_norm
    norm.register_forward_hook(lambda module, inputs, output: seen.update(h=output))
    with torch.no_grad():
        h_1LD, _ = model(ids[None, :-1])
        p_LV = model.head.log_probs(h_1LD)[0].exp()
    expected = 0.0
    for at, target in enumerate(ids[1:].tolist()):
        near_V = brute_force([store], seen["h"][0, at], 12, 2.0, 256)
        expected -= np.log(0.4 * near_V[target] + 0.6 * float(p_LV[at, target]))
    scored = sublayer.evaluation.score(
        model, tokens, length=16, limit=8, scorer=sublayer.retrieval.MixtureScorer(mixture, tokens)
    )
    assert scored.nats == pytest.approx(expected, rel=1e-5)


def test_generation_draws_from_the_mixture(run, store):
    """Greedy, from neighbours alone: each token is the one that they find likeliest; the text says where they are."""
    mixture = run.mixture([store.path], share=1.0, neighbours=8, temperature=1.0)
    written = run.write(["line 1", "of the"], tokens=6, temperature=0.0, mixture=mixture)
    assert run.write(["line 1"], tokens=6, beam=sublayer.generation.Beam(width=1), mixture=mixture) == written[:1]
    assert "".join(run.stream("line 1", tokens=6, temperature=0.0, mixture=mixture)) == run.tokenizer.decode(written[0])
    told = run.explain("line 1", written[0], mixture)
    text = (store.path.parent / "book.txt").read_bytes()
    for token, one in zip(written[0], told, strict=True):
        assert one.mixed == pytest.approx(one.neighbours)
        assert one.neighbours >= 1 / 8
        assert sum(voice.weight for voice in one.voices) <= one.neighbours + 1e-9
        assert [text[voice.token] for voice in one.voices] == [token] * len(one.voices)
        assert text[: one.voices[0].token].decode(errors="replace").endswith(one.voices[0].context[-8:])


def test_tuning_finds_the_share_that_a_grid_finds(run, store):
    dice = np.random.default_rng(0)
    model_N, near_N = dice.uniform(0.01, 1, 200), dice.uniform(0, 1, 200) ** 2
    shares = np.linspace(0, 0.999, 1000)
    best = shares[np.argmax([np.log((1 - s) * model_N + s * near_N).sum() for s in shares])]
    assert best_share(model_N, near_N) == pytest.approx(best, abs=2e-3)
    assert best_share(near_N + 0.1, near_N) == 0
    found = sublayer.evaluate(run.run.path, datastore=[store.path], tune=True)
    tuned = found.datastore["tuned"]
    assert tuned["loss"] < tuned["model_loss"]
    assert found.figures["loss"] < found.datastore["model"]["loss"]


def test_without_the_library_only_exact_search_is_left(run, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(ValueError, match=r"index ivf: needs faiss; install .*sublayer\[knn\].*--index exact"):
        built(run, tmp_path / "store", index="ivf")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("kind", ['{"kind": "ivf", "lists": 8, "probes": 4}', "hnsw"])
def test_an_approximate_index_states_what_it_finds(run, store, tmp_path, kind):
    pytest.importorskip("faiss")
    made = built(run, tmp_path / "store", index=read_value(kind), limit=600)
    assert made.recall is not None
    query_ND = made.keys.rows(made.keys.sample(256)) / made.facts.scale
    here = search([made], query_ND, 17)
    assert (here.distance_QK[:, 0] == 0).mean() > 0.9
    again = built(run, tmp_path / "store", index="exact", limit=600)
    there = search([again], query_ND, 17)
    found = (here.distance_QK <= there.distance_QK[:, -1:]).mean()
    assert found == pytest.approx(made.recall[16], abs=0.02)
    assert again.recall is None
    assert not (again.path / "index.bin").exists()
