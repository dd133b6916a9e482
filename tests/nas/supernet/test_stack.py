"""The supernet against the plain stack that it holds, and against eq. 6 written out."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sublayer.nas.supernet import draw, over
from sublayer.nas.supernet.stack import Supernet
from sublayer.nn import layout as layouts
from sublayer.nn.scene import Scene
from tests.nas.supernet.small import base

PAPERS = ("gpt2", "transformer-xl", "gtrxl", "llama")


def built(paper="gpt2", letters="sf-", **more):
    torch.manual_seed(0)
    model = over(base(paper, **more), letters).build()
    assert isinstance(model.stack, Supernet)
    with torch.no_grad():  # gates, norms and scalars that start alike would hide a swap
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def prefer(stack, word):
    with torch.no_grad():
        stack.preference_NC.zero_()
        for n, letter in enumerate(word):
            stack.preference_NC[n, stack.choices.index(letter)] = 3.0


def plain(model, word, paper):
    """A plain model of the word, with the supernet's weights."""
    kept = word.replace("-", "")
    made = base(paper, layout=layouts.spell(kept)).build()
    weights = {name: value for name, value in model.state_dict().items() if "sublayers" not in name}
    del weights["stack.preference_NC"]
    width, at = model.stack.width, 0
    for n, letter in enumerate(word):
        if letter == "-":
            continue
        there = f"stack.sublayers.{n * width + model.stack.choices.index(letter)}."
        own = {name: value for name, value in model.state_dict().items() if name.startswith(there)}
        weights |= {f"stack.sublayers.{at}." + name.removeprefix(there): value for name, value in own.items()}
        at += 1
    made.load_state_dict(weights)
    return made


@pytest.mark.parametrize("paper", PAPERS)
@given(word=st.text("sf-", min_size=4, max_size=4).filter(lambda word: word.strip("-")))
def test_one_path_is_the_plain_stack_to_the_last_bit(paper, word):
    model = built(paper)
    prefer(model.stack, word)
    alone = plain(model, word, paper)
    model.eval(), alone.eval()
    ids = torch.randint(61, (2, 15))
    states = None, None
    for cut in (slice(0, 5), slice(5, 6), slice(6, 15)):
        (h, mine), (expected, theirs) = model(ids[:, cut], states[0]), alone(ids[:, cut], states[1])
        assert torch.equal(h, expected)
        states = mine, theirs
    kept = [state for state, letter in zip(states[0].parts, "sf" * 4, strict=True) if letter == "s"]
    chosen = [state for n, state in enumerate(kept) if word[n] == "s"]
    remembered = [state for state in states[1].parts if state is not None]
    assert len(chosen) == len(remembered)
    for here, there in zip(chosen, remembered, strict=True):
        tensors = [torch.equal(a, b) for a, b in zip(tensors_of(here), tensors_of(there), strict=True)]
        assert all(tensors)


def tensors_of(memory):
    found = []
    memory.map(lambda tensor: found.append(tensor) or tensor)
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_what_is_not_on_the_path_remembers_on(paper):
    """A path drawn anew for each segment finds the memories as if every letter had run."""
    model = built(paper).eval()
    ids = torch.randint(61, (2, 12))
    prefer(model.stack, "ffff")
    skipped = model(ids)[1]
    x_BLD = model.embedding.norm_and_drop(
        model.stack.position.embed(model.embedding.read(ids), Scene(torch.arange(12)[None]))
    )
    first = model.stack.sublayers[0](x_BLD, Scene(torch.arange(12)[None]), None)[1]
    assert [torch.equal(a, b) for a, b in zip(tensors_of(skipped.parts[0]), tensors_of(first), strict=True)].count(
        False
    ) == 0


@pytest.mark.parametrize("paper", PAPERS)
@given(seed=st.integers(0, 99), one=st.booleans())
def test_equation_six_in_values_and_gradients(paper, seed, one):
    """Σ_i m_i F_i(X) by plain autograd; a single path has the gradients of what it ran."""
    model = built(paper).double().train()
    stack = model.stack
    ids = torch.randint(61, (2, 7))
    torch.manual_seed(seed)
    with torch.no_grad():
        stack.preference_NC.normal_()
    rule = partial(draw.path if one else draw.shares, temperature=0.7)
    torch.manual_seed(seed)
    m_NC = rule(stack.preference_NC)
    stack.draw = lambda preference: m_NC
    h, _ = model(ids)
    grads = gradients(h, model)
    expected = gradients(written_out(model, ids, m_NC, one), model)
    assert torch.allclose(h, written_out(model, ids, m_NC, one), atol=1e-12)
    for name, grad in grads.items():
        assert torch.allclose(grad, expected[name], atol=1e-10), name


def written_out(model, ids, m_NC, one):
    scene = Scene(torch.arange(ids.shape[1])[None])
    x = model.embedding.norm_and_drop(model.stack.position.embed(model.embedding.read(ids), scene))
    for n, weights in enumerate(m_NC):
        made = [model.stack.sublayers[n * 2 + i](x, scene, None)[0] for i in range(2)]
        if one:  # what was not drawn is not run, so nothing is learned of it
            weights = torch.where(weights.detach() == 0, weights.detach(), weights)
            x = x + sum(m * (y - x) for m, y in zip(weights, made, strict=False))
        else:
            x = weights[2] * x + weights[0] * made[0] + weights[1] * made[1]
    return model.stack.final_norm(x)


def gradients(h, model):
    generator = torch.Generator().manual_seed(1)
    loss = (h * torch.randn(h.shape, generator=generator, dtype=h.dtype)).sum()
    named = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), retain_graph=True, allow_unused=True)
    return {name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(named.items(), found, strict=True)}


def test_every_choice_is_learned_of():
    model = built().train()
    model(torch.randint(61, (2, 7)))[0].square().sum().backward()
    grad = model.stack.preference_NC.grad
    assert grad is not None
    assert (grad != 0).all()


def test_identities_alone_can_be_drawn():
    model = built().train()
    prefer(model.stack, "----")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name == "stack.preference_NC")
    model.stack.draw = lambda preference: draw.best(preference) + 0.0 * preference
    model(torch.randint(61, (2, 7)))[0].sum().backward()
    assert model.stack.preference_NC.grad is not None


def test_latency_is_what_the_mixture_would_take():
    stack = built().train().stack
    stack.price({"s": 0.5, "f": 0.25}, 2.0)
    stack.draw = lambda preference: torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.25, 0.25]])
    scene = Scene(torch.arange(3)[None])
    stack(torch.randn(1, 3, 16), scene)
    assert float(scene.losses["latency"]) == pytest.approx(2 * (0.5 + 0.25 + 0 + 0.25 + 0.0625))


@given(temperature=st.floats(0.1, 5.0), seed=st.integers(0, 99))
def test_weights_sum_to_one(temperature, seed):
    torch.manual_seed(seed)
    preference = torch.randn(6, 3)
    shares, path = draw.shares(preference, temperature), draw.path(preference, temperature)
    assert torch.allclose(shares.sum(1), torch.ones(6))
    assert set(path.unique().tolist()) <= {0.0, 1.0}
    assert torch.equal(path.sum(1), torch.ones(6))


def test_paths_are_drawn_as_often_as_they_are_preferred():
    preference = torch.tensor([[0.0, 1.0, 2.0]]).expand(4000, 3)
    torch.manual_seed(0)
    drawn = draw.path(preference, 3.0).mean(0)
    assert torch.allclose(drawn, preference[0].softmax(0), atol=0.03)


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl"])
def test_params_are_counted(paper):
    config = over(base(paper))
    assert config.cost().params == sum(parameter.numel() for parameter in config.build().parameters())


def test_round_trip():
    config = over(base("transformer-xl"), "fs")
    assert type(config).parse(config.dump()) == config
    assert config.stack.choices == "fs"


@pytest.mark.parametrize(
    ("letters", "layout", "said"),
    [
        ("sg-", "(sf)x2", "letters=sg-: the alphabet has no 'g'; it has s, f, and - (identity)"),
        ("-", "(sf)x2", "letters=-: give each choice once, and two or more, such as sf-"),
        ("ssf", "(sf)x2", "letters=ssf: give each choice once"),
        ("sf-", "s", "layout=s: 1 sublayers are fewer than the letters sf; give more sublayers"),
    ],
)
def test_what_cannot_be_searched(letters, layout, said):
    with pytest.raises(ValueError, match=r"letters|layout") as error:
        over(base(layout=layout), letters)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_varied_letters_are_refused():
    with pytest.raises(ValueError, match="vary: a supernet has every letter at every slot"):
        over(base(**{"s.heads": [2, 4]}))
