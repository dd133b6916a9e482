"""Memorizing attention: its statement by hand, what it equals, what learns, and plain runs that are given a memory."""

import math

import pytest
import torch

import sublayer
from sublayer.evaluation import score
from sublayer.nn.attention import Memorizing, MultiHead, Window
from sublayer.nn.config import ConfigError
from sublayer.nn.part import Slot
from sublayer.nn.position import Alibi
from sublayer.nn.scene import Scene
from sublayer.testing import Case, small
from sublayer.testing.case import same
from sublayer.testing.laws.counts import count_flops

CUTS = (3, 6, 1, 9, 1, 5)


def part(**settings):
    config = Memorizing.Config(heads=1, bias=False, **{"window": 3, "size": 8, "neighbours": 4, **settings})
    built = config.build(Slot(8, Alibi.Config())).double()
    with torch.no_grad():
        built.gate_H.fill_(0.7)
    return built


def read(part, x_1LD, cuts=CUTS):
    found, state, start = [], None, 0
    for length in cuts:
        scene = Scene(torch.arange(start, start + length)[None], start)
        y_1LD, state = part(x_1LD[:, start : start + length], scene, state)
        found.append(y_1LD)
        start += length
    return torch.cat(found, 1)


@pytest.mark.parametrize("neighbours", [4, 8, 30])
def test_attention_is_what_the_statement_says(neighbours):
    """By hand; with as many neighbours as the memory has tokens, or more, it is attention to all of them."""
    built, x_1LD = part(neighbours=neighbours), torch.randn(1, sum(CUTS), 8, dtype=torch.float64)
    q, k, v = (x_1LD[0] @ built.qkv.weight.T).chunk(3, dim=-1)
    q, k = (w / w.norm(dim=-1, keepdim=True) for w in (q, k))
    q = q * built.scale_H
    starts = [sum(CUTS[:n]) for n, length in enumerate(CUTS) for _ in range(length)]
    expected, gate = [], 1 / (1 + math.exp(-0.7))
    for i, start in enumerate(starts):
        near = range(max(0, i - 2), i + 1)
        bias = torch.tensor([-(2.0**-8) * (i - j) for j in near], dtype=torch.float64)
        y = (1 - gate) * ((k[list(near)] @ q[i] + bias).softmax(0) @ v[list(near)])
        best = sorted(range(max(0, start - 8), start), key=lambda j, i=i: -float((q[i] @ k[j]).detach()))[:neighbours]
        if best:
            y = y + gate * ((k[best] @ q[i]).softmax(0) @ v[best])
        expected.append(built.output(y))
    same(read(built, x_1LD)[0], torch.stack(expected), 1e-12, "by hand")


def test_nothing_learns_through_the_memory():
    """Neither window nor search passes a gradient to earlier segments; gates, scales and projections get one."""
    built, x_1LD = part(), torch.randn(1, 20, 8, dtype=torch.float64)
    first, second = (x.clone().requires_grad_() for x in x_1LD.split(10, dim=1))
    state = built(first, Scene(torch.arange(10)[None]))[1]
    built(second, Scene(torch.arange(10, 20)[None], 10), state)[0].sum().backward()
    assert first.grad is None
    assert all(
        weight.grad is not None and weight.grad.any() for weight in (built.gate_H, built.scale_H, built.qkv.weight)
    )


def test_cost_with_a_full_memory():
    cut = small(sublayer.config("memorizing")).but({"m.size": 24})
    with torch.device("meta"):
        model = cut.build().eval()
    for length, memory in ((5, 10), (1, 60), (7, 60)):
        work = cut.cost(length, memory).flops
        assert count_flops(model, length, memory) == work.embedding + work.stack + work.head


def test_a_larger_memory_than_in_training():
    """What is repeated beyond the window is found again; other layers stay as they are."""
    model, ids = Case(small(sublayer.config("memorizing"))).model(torch.float32), torch.randint(61, (90,)).numpy()
    found = [score(model, ids, length=8, memory=memory).nats for memory in (None, 4, 40)]
    assert found[0] == found[1] != found[2]


SIZES = {"dim": 16, "layout": "sf sf", "s.heads": 2, "s.pattern.size": 8, "f.inner": 16, "m.heads": 2, "m.window": 8}
BUDGET = {"m.size": 32, "train.steps": 2, "train.batch": 2, "train.length": 16, "train.warmup": 1}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memorizing")
    (folder / "book.txt").write_text("".join(f"line {n} of the text\n" for n in range(80)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBLAYER_CACHE", str(folder / "cache"))
        run = sublayer.train("memorizing", str(folder / "book.txt"), folder / "run", SIZES | BUDGET, quiet=True)
        yield folder, str(run.path)


def start_from(plain, name, **changes):
    folder, run = plain
    data, out = str(folder / "book.txt"), folder / name
    return sublayer.train("memorizing", data, out, SIZES | BUDGET | {"train.start": run, **changes}, quiet=True)


def test_a_plain_run_is_given_a_memory(plain):
    run = start_from(plain, "given", layout="sf mf", **{"train.lr": 1e-9})
    there, here = (sublayer.load(path).model for path in (plain[1], run.path))
    assert type(here.stack.sublayers[2].part) is Memorizing
    for name, weight in there.state_dict().items():
        same(here.state_dict()[name], weight, 1e-6, name)
    assert here.stack.sublayers[2].part.gate_H.abs().max() < 1e-6


@pytest.mark.parametrize("changes", [{"m.heads": 4}, {"m.bias": False}, {"f.inner": 32}])
def test_what_does_not_fit_is_refused(plain, changes):
    with pytest.raises(ConfigError, match=r"train\.start=.*leave the model's keys as the run has them"):
        start_from(plain, "refused", layout="sf mf", **changes)


def test_another_kernel_is_no_plain_attention():
    made = Memorizing.Config(heads=2)
    assert made.starts_from(MultiHead.Config(heads=2, pattern=Window.Config(size=9)))
    assert not made.starts_from(MultiHead.Config(heads=2, kernel="linear"))
