"""Which path a Feedback stack takes, why not a faster one, and what its state holds by any of them."""

import pytest
import torch

import sublayer
from sublayer.nn import paths
from sublayer.nn.stack import Feedback, native
from sublayer.testing import Case, small
from tests.nn.stack.test_feedback import BASE, SLOW, VARIANTS


def stack(config):
    with torch.device("meta"):
        return config.build().stack


def test_training_takes_the_loop_in_c():
    assert paths.report("stack", stack(BASE), "training") == paths.Choice("Feedback loop in C")


def test_prompts_are_read_in_sweeps():
    assert paths.report("stack", stack(BASE), "generation").path == "sweeps over all tokens"


def test_without_a_compiler_training_takes_one_autograd_step(monkeypatch):
    monkeypatch.setattr(native, "available", lambda: False)
    choice = paths.report("stack", stack(BASE), "training")
    assert choice.path == "Feedback loop in one autograd step"
    assert "no compiler" in choice.why_not[0][1]


def test_the_reason_names_what_is_not_known():
    choice = paths.report("stack", stack(BASE.but({"residual": {"kind": "pre_norm", "add": "gru_gate"}})), "training")
    assert choice.path == "plain PyTorch"
    assert choice.why_not[0][1].startswith("sublayer 0 is of a kind it does not know: PreNorm, GruGate")


def test_other_stacks_are_not_served():
    choice = paths.report("stack", stack(small(sublayer.config("gpt2"))), "training")
    assert choice == paths.Choice("plain PyTorch")


class Backwards(Feedback):
    """A plug-in with a loop of its own."""

    def loop(self, sublayers, x_BLD, scene, keys, others):
        x_BLD, keys, vectors = super().loop(sublayers, x_BLD, scene, keys, others)
        return -x_BLD, keys, vectors


@pytest.mark.parametrize("grad", [True, False])
def test_a_loop_of_a_subclass_is_never_gone_around(grad):
    model, ids = BASE.build().eval(), Case(BASE).ids(length=40, batch=1)
    plug_in = BASE.build().eval()
    plug_in.load_state_dict(model.state_dict())
    plug_in.stack.__class__ = Backwards
    plug_in.stack.final_norm = model.stack.final_norm = torch.nn.Identity()
    with torch.set_grad_enabled(grad):
        torch.testing.assert_close(plug_in(ids)[0], -model(ids)[0], rtol=0, atol=1e-4)


def test_slow_twins_take_the_plain_loop(monkeypatch):
    calls, loop = [], Feedback.loop
    monkeypatch.setattr(Feedback, "loop", lambda *given: calls.append(1) or loop(*given))
    model, ids = BASE.build(), Case(BASE).ids()
    model(ids)
    assert not calls
    with paths.by_slow_twins():
        model(ids)
    assert calls


SIZED = {**VARIANTS, **SLOW, "cache": {"s.memory": "cache"}}


@pytest.mark.parametrize("changes", SIZED.values(), ids=SIZED)
def test_the_state_holds_what_the_config_counts(changes):
    config = BASE.but(changes)
    trial = Case(config)
    model, first, second = trial.model(torch.float32), trial.ids(), trial.ids(key=3)
    for frozen in (False, True):
        sizes = []
        for slow in (False, True):
            with paths.by_slow_twins() if slow else torch.enable_grad():
                state = model(first)[1]
                sizes.append(model(second, model.frozen(state) if frozen else state)[1].size)
        counted = config.state_size(second.shape[1], first.shape[1], frozen=frozen)
        assert sizes == [len(first) * counted] * 2
