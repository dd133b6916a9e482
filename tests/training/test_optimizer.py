"""Optimisers: PyTorch's own by name, NVLAMB against its equations, and what they keep, kept."""

import math

import pytest
import torch
from torch import nn

from sublayer.nn.config import ConfigError
from sublayer.training.distribution import World
from sublayer.training.lamb import NvLamb
from sublayer.training.optimizer import Optimizer, dump, groups, load

KINDS = ["adamw", "adam", "lamb", "sgd"]


class Slow:
    """NVLAMB on lists of numbers, as its docstring says it."""

    def __init__(self, tensors, lr, betas, eps, decays):
        self.w = [tensor.flatten().tolist() for tensor in tensors]
        self.m, self.v = ([[0.0] * len(w) for w in self.w] for _ in range(2))
        self.lr, (self.beta1, self.beta2), self.eps, self.decays, self.steps = lr, betas, eps, decays, 0

    def step(self, grads):
        grads = [grad.flatten().tolist() for grad in grads]
        shrink = max(1.0, norm(g for grad in grads for g in grad))
        self.steps += 1
        for w, m, v, grad, decay in zip(self.w, self.m, self.v, grads, self.decays, strict=True):
            update = []
            for i, g in enumerate(g / shrink for g in grad):
                m[i] = self.beta1 * m[i] + (1 - self.beta1) * g
                v[i] = self.beta2 * v[i] + (1 - self.beta2) * g * g
                m_hat, v_hat = m[i] / (1 - self.beta1**self.steps), v[i] / (1 - self.beta2**self.steps)
                update.append(m_hat / (math.sqrt(v_hat) + self.eps) + decay * w[i])
            ratio = norm(w) / norm(update) if norm(w) > 0 and norm(update) > 0 else 1.0
            w[:] = [w_i - self.lr * ratio * u_i for w_i, u_i in zip(w, update, strict=True)]


def norm(numbers):
    return math.sqrt(sum(x * x for x in numbers))


@pytest.mark.parametrize("size", [0.1, 10.0], ids=["short gradients", "long gradients"])
def test_nvlamb_follows_its_equations(size):
    generator = torch.Generator().manual_seed(3)
    shapes, decays = [(3, 4), (2, 2), (5,), ()], [0.01, 0.01, 0.0, 0.0]
    weights = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    weights[2].zero_()  # a bias at its start: no norm to go by
    parameters = [nn.Parameter(weight.clone()) for weight in weights]
    fast, slow = NvLamb(groups(parameters, 0.01), 0.1), Slow(weights, 0.1, (0.9, 0.999), 1e-6, decays)
    for _ in range(5):
        grads = [torch.randn(shape, generator=generator, dtype=torch.float64) * size for shape in shapes]
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        fast.step()
        slow.step(grads)
        for parameter, numbers in zip(parameters, slow.w, strict=True):
            torch.testing.assert_close(parameter.flatten().tolist(), numbers, rtol=1e-10, atol=1e-12)


def test_nvlamb_leaves_alone_what_has_no_gradient():
    parameters = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = NvLamb(parameters, 0.1)
    optimizer.step()
    parameters[0].grad = torch.ones(2)
    optimizer.step()
    assert parameters[1].tolist() == [1.0, 1.0]
    assert parameters[0].tolist() != [1.0, 1.0]


@pytest.mark.parametrize(
    ("kind", "own", "given"),
    [
        ({"kind": "adamw", "decay": 0.3}, torch.optim.AdamW, {"betas": (0.9, 0.95), "eps": 1e-8}),
        ({"kind": "adam", "decay": 0.3}, torch.optim.Adam, {"betas": (0.9, 0.999), "eps": 1e-8}),
        ({"kind": "sgd", "decay": 0.3}, torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        ({"kind": "sgd", "decay": 0.3, "momentum": 0}, torch.optim.SGD, {}),
    ],
    ids=["adamw", "adam", "sgd", "plain sgd"],
)
def test_pytorchs_own_with_decay_of_matrices_only(kind, own, given):
    torch.manual_seed(0)
    ours, theirs = model(), model()
    theirs.load_state_dict(ours.state_dict())
    built = Optimizer.Config.parse(kind).build(ours.parameters(), 0.01)
    assert type(built) is own
    matrices, vectors = [theirs[0].weight], [theirs[0].bias, theirs[1].weight]
    decays = [{"params": matrices, "weight_decay": 0.3}, {"params": vectors, "weight_decay": 0.0}]
    expected = own(decays, lr=0.01, **given)
    for seed in range(4):
        for one, optimizer in ((ours, built), (theirs, expected)):
            take_step(one, optimizer, seed)
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(weight, theirs.get_parameter(name), rtol=1e-6, atol=1e-7)


def model():
    return nn.Sequential(nn.Linear(4, 4), nn.RMSNorm(4))


def take_step(module, optimizer, seed):
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
    optimizer.zero_grad()
    module(x).pow(3).sum().backward()
    optimizer.step()


def test_what_is_frozen_is_not_touched():
    module = model()
    module[0].requires_grad_(False)
    assert [len(group["params"]) for group in groups(module.parameters(), 0.1)] == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_dumped_goes_on_as_if_it_had_not_been(kind):
    torch.manual_seed(0)
    config, world = Optimizer.Config.parse(kind), World("cpu")
    here, there = model(), model()
    optimizer = config.build(here.parameters(), 0.01)
    assert dump(optimizer, here) == {}
    for seed in range(3):
        take_step(here, optimizer, seed)
    kept = dump(optimizer, here)
    assert all(isinstance(value, torch.Tensor) for value in kept.values())
    assert {name.split(":")[0] for name in kept} == {"0.weight", "0.bias", "1.weight"}
    there.load_state_dict(here.state_dict())
    other = config.build(there.parameters(), 0.01)
    load(other, there, kept, world)
    for seed in range(3, 6):
        take_step(here, optimizer, seed)
        take_step(there, other, seed)
    assert all(torch.equal(there.get_parameter(name), weight) for name, weight in here.named_parameters())
    again = dump(other, there)
    assert all(torch.equal(again[name], value) for name, value in dump(optimizer, here).items())


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("adamx", "unknown optimizer kind 'adamx'; did you mean adam, adamw"),
        ({"kind": "adamw", "beta1": 1}, "beta1: input should be less than 1, got 1"),
        ({"kind": "sgd", "beta1": 0.9}, "beta1: there is no such field"),
        ({"kind": "lamb", "eps": 0}, "eps: input should be greater than 0"),
    ],
)
def test_wrong_optimisers(kind, said):
    with pytest.raises(ConfigError, match=said):
        Optimizer.Config.parse(kind)
