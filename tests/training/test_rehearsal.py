"""A few steps of the trainer, killed and resumed: the same bits, and a mistake is found."""

import pytest
import torch

import sublayer
from sublayer.data import Task
from sublayer.nn.config import ConfigError
from sublayer.testing import small
from sublayer.training import loop
from sublayer.training.rehearsal import rehearse
from sublayer.training.trainee import Trainee


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl", "bert-base", "feedback"])
def test_killed_and_resumed_gives_the_same_bits(paper):
    found = rehearse(small(sublayer.config(paper)))
    assert found.differing == []
    assert {name.split("/")[0] for name in found.whole} >= {"model", "optimizer"}
    assert b'"step": 5' in found.whole_metrics


RANDOM = {
    "features": {"s.kernel": {"kind": "performer", "features": 8, "redraw": 2}},
    "waves": {"s.kernel": {"kind": "rfa", "features": 8, "gate": True}},
    "hashes": {"s": {"kind": "lsh", "heads": 4, "buckets": 4, "chunk": 3, "rounds": 2}},
}
"""What is drawn again in training: between the checkpoint and the end, and after each step."""


@pytest.mark.parametrize("drawn", RANDOM)
def test_what_is_drawn_in_training_is_drawn_alike_after_a_kill(drawn):
    found = rehearse(small(sublayer.config("gpt2")).but({"position": "none", **RANDOM[drawn]}))
    assert found.differing == []
    assert any("w_FK" in name for name in found.whole)


def test_on_a_task_and_with_a_named_objective():
    task = Task.named("copy").but(episodes=20, valid=4, test=4, length=3)
    assert rehearse(small(sublayer.config("gpt2")), task, objective="answers").differing == []
    assert rehearse(small(sublayer.config("llama")), objective="next_token").differing == []


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(ConfigError, match="encoder_decoder: has no objective for a text"):
        rehearse(small(sublayer.config("transformer")))


def test_a_state_that_is_dropped_is_found(monkeypatch):
    """What a checkpoint forgets shows in the bits."""
    monkeypatch.setattr("sublayer.training.trainee.read_state", lambda *args: None)
    found = rehearse(small(sublayer.config("transformer-xl")))
    assert found.differing


def test_noise_without_a_seed_is_found(monkeypatch):
    kept = loop.take_step

    def noisy(trainee: Trainee, *args):
        done = kept(trainee, *args)
        with torch.no_grad():
            next(trainee.model.parameters()).add_(noise.normal_() * 1e-6)
        return done

    noise = torch.zeros(1)
    torch.manual_seed(1)
    monkeypatch.setattr(loop, "take_step", noisy)
    monkeypatch.setattr(loop.torch, "manual_seed", lambda seed: None)
    assert rehearse(small(sublayer.config("gpt2"))).differing
