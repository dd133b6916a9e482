"""The contestants do the same work: as many parameters, the same loss to begin with, a gradient everywhere."""

import math

import pytest
import torch
import train_step
from train_step import Shape

TINY = Shape(dim=64, layers=2, length=7)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "own"])
def test_ours_and_hugging_face_have_as_many_parameters(activation):
    counts = [
        sum(p.numel() for p in train_step.BUILDERS[name](TINY, activation)[0].parameters())
        for name in ("ours", "hugging-face")
    ]
    assert counts[0] == counts[1] == train_step.our_config(TINY, activation).cost(TINY.length).params


@pytest.mark.parametrize("name", ["ours", "hugging-face"])
def test_a_step_leaves_a_gradient_on_every_parameter(name):
    model, run = train_step.build(name, TINY, "gelu")
    run()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize("name", ["ours", "hugging-face"])
def test_the_loss_is_the_mean_over_all_next_tokens(name):
    """Untrained, every token is about as likely as any other."""
    _, loss = train_step.BUILDERS[name](TINY, "gelu")
    with torch.no_grad():
        assert float(loss(*train_step.batch(TINY.length))) == pytest.approx(math.log(train_step.VOCAB), abs=0.2)


def test_targets_are_the_inputs_one_place_on():
    inputs, targets = train_step.batch(9, rows=3)
    assert inputs.shape == targets.shape == (3, 9)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_shapes_are_read_and_written():
    assert str(Shape.parse("256/4/128")) == "256/4/128"
    with pytest.raises(ValueError, match="expected dim/layers/length"):
        Shape.parse("256/4")
    with pytest.raises(ValueError, match="dim 100 is no multiple of the head size, 64; use 128"):
        Shape.parse("100/4/128")
