"""What is made small: the mean loss of next tokens, or of hidden ones; and how it is measured on valid."""

import math

import pytest
import torch

import sublayer
from sublayer.data import Batch, DataConfig, prepare
from sublayer.objectives import MaskedTokens, NextToken, choose
from sublayer.testing import small
from tests.training import tiny


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return small(sublayer.config("bert-base")).build().eval()


def hiding(model, share):
    return MaskedTokens.Config().build(model, mask=share)


def test_what_is_hidden(encoder):
    torch.manual_seed(0)
    ids_BL = torch.randint(encoder.config.vocab - 1, (200, 50))
    inputs_BL, chosen_BL = hiding(encoder, 0.15).hide(ids_BL)
    mask = encoder.config.vocab - 1
    assert chosen_BL.float().mean() == pytest.approx(0.15, abs=0.01)
    assert torch.equal(inputs_BL[~chosen_BL], ids_BL[~chosen_BL])
    masked_N, same_N = inputs_BL[chosen_BL] == mask, inputs_BL[chosen_BL] == ids_BL[chosen_BL]
    assert masked_N.float().mean() == pytest.approx(0.8, abs=0.03)
    assert same_N.float().mean() == pytest.approx(0.1 + 0.1 / mask, abs=0.03)
    assert inputs_BL.max() == mask


@pytest.mark.parametrize("share", [0.0, 0.15, 0.9])
def test_at_least_one_a_row_of_those_that_count(encoder, share):
    weights_BL = torch.ones(64, 5)
    weights_BL[:, 1:] = 0
    weights_BL[32:] = 0
    ids_BL = torch.zeros(64, 5, dtype=torch.long)
    made = hiding(encoder, share)
    assert made.hide(ids_BL)[1].any(1).all()
    assert made.hide(ids_BL, weights_BL)[1][:32, 0].all()
    loss, state, _ = made(Batch(ids_BL, ids_BL, weights_BL))
    assert loss.isfinite()
    assert state is None


def test_the_target_is_what_was_hidden(encoder):
    """The loss is that of the hidden tokens alone, whatever the targets of a decoder are."""
    ids_BL = torch.randint(encoder.config.vocab - 1, (4, 9))
    made = hiding(encoder, 0.3)
    torch.manual_seed(5)
    loss, _, named = made(Batch(ids_BL, ids_BL * 0))
    torch.manual_seed(5)
    inputs_BL, chosen_BL = made.hide(ids_BL)
    scores_BLV = encoder.head(encoder(inputs_BL)[0])
    expected = torch.nn.functional.cross_entropy(scores_BLV[chosen_BL], ids_BL[chosen_BL])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert named.keys() == {"loss"}


def test_which_model_learns_what(encoder):
    assert isinstance(choose(encoder.config), MaskedTokens.Config)
    assert isinstance(choose(small(sublayer.config("gpt2"))), NextToken.Config)


# On valid


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl"])
def test_valid_is_scored_token_by_token(book, tmp_path, paper):
    """With one row: segment after segment, from the first token to the last."""
    run = tiny.train(book, tmp_path / "run", paper, train__steps=1, train__batch=1, data__tokenizer="char")
    trained = sublayer.load(run.path)
    valid = prepare(DataConfig.parse(run.asked["data"]), tokenizer=run.tokenizer).valid
    ids_L = torch.from_numpy(valid.ids.astype("int64"))
    state, nats = None, []
    with torch.no_grad():
        for inputs, targets in zip(ids_L[:-1].split(16), ids_L[1:].split(16), strict=True):
            h_BLD, state = trained.model(inputs[None], state if paper == "transformer-xl" else None)
            log_probs_LV = trained.model.head.log_probs(h_BLD)[0]
            nats += [-log_probs_LV[place, target].item() for place, target in enumerate(targets)]
    (line,) = [line for line in run.metrics if "valid_loss" in line]
    loss = sum(nats) / len(nats)
    assert line["valid_loss"] == pytest.approx(loss, rel=1e-5)
    assert line["valid_perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    bits = loss * len(valid) / valid.bytes / math.log(2)
    assert line["valid_bits_per_byte"] == pytest.approx(bits, rel=1e-5)


def test_a_valid_shorter_than_the_rows(book, tmp_path):
    for paper in ("gpt2", "bert-base"):
        run = tiny.train(book, tmp_path / paper, paper, train__steps=1, train__batch=8, data__splits__valid=0.0015)
        assert all(math.isfinite(loss) for loss in tiny.losses(run, "valid_loss"))
        assert tiny.losses(run, "valid_loss")


def test_some_of_valid(book, tmp_path):
    all_of_it, some = (
        tiny.train(book, tmp_path / str(tokens), train__steps=1, train__eval_tokens=tokens) for tokens in (None, 20)
    )
    assert tiny.losses(all_of_it, "valid_loss") != tiny.losses(some, "valid_loss")
