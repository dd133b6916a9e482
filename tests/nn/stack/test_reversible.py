"""The reversible stack: the pass that finds its activations again does what the plain loop does, and stores as much
at any depth."""

import weakref
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from unittest import mock

import pytest
import torch
from torch import Tensor

import sublayer
from sublayer.nn.config import ConfigError
from sublayer.nn.feedforward import Dense
from sublayer.nn.model import Model
from sublayer.nn.part import Work
from sublayer.nn.stack import reversal
from sublayer.testing.surroundings import _translator
from sublayer.training.recompute import recompute

Pass = reversal.Pass
SIZES = {"stack": "reversible", "s.heads": 4, "f.inner": 24, "f.activation": "gelu", "position": "none"}
DROPS = {"s.dropout": 0.2, "f.dropout": 0.3, "residual.dropout": 0.2, "embedding.dropout": 0.1}
BASE = sublayer.config("gpt2", {"dim": 32, "layout": "(sf)x3", "vocab": 61, **SIZES, **DROPS})
XL = {"s.memory": {"kind": "segment", "length": 6}}
SPAN = {"s.span": {"kind": "adaptive", "limit": 4, "ramp": 2, "start": 0.25, "loss": 0.1}}
VARIANTS = {
    "plain": {},
    "no pairs of attention and feed-forward": {"layout": "ssfsff"},
    "chunks": {"stack.chunks": 4},
    "positions of the stack": {"position": "relative_xl"},
    "memory": {**XL, "position": "relative_xl"},
    "span": SPAN,
    "span and memory": {**SPAN, **XL},
    "kernel with a state": {"s.kernel": "linear"},
    "masks and biases": {"position": "alibi", "s.pattern": {"kind": "window", "size": 4}},
    "layer drop": {"residual": {"kind": "layer_drop", "rate": 0.4}},
    "layer drop and chunks": {"residual": {"kind": "layer_drop", "rate": 0.4}, "stack.chunks": 3},
}
CLOSE = {torch.float64: 1e-10, torch.float32: 1e-5}


@dataclass
class Found:
    """What a trial gives: hidden vectors, losses of parts, slopes of the weights, the next random number."""

    h: list[Tensor]
    losses: dict[str, Tensor]
    slopes: list[Tensor]
    next: float
    served: list[bool]


def made(config: Model.Config, dtype: torch.dtype = torch.float64) -> Model:
    torch.manual_seed(0)
    model = config.build().to(dtype).train()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
    return model


def ids(length: int = 14, rows: int = 2) -> Tensor:
    return torch.randint(61, (rows, length), generator=torch.Generator().manual_seed(1))


def tried(model: Model, plain: bool = False, autocast: bool = False) -> Found:
    """Two segments, one with padding, and one after a copy of a state; `plain`: by the loop."""
    served, serves = [], reversal.serves

    def noted(*given) -> bool:
        served.append(not plain and serves(*given))
        return served[-1]

    tokens, losses, h = ids(), {}, []
    valid = torch.ones(2, 9, dtype=torch.bool)
    valid[0, :3] = False
    torch.manual_seed(5)
    with ExitStack() as opened:
        opened.enter_context(mock.patch.object(reversal, "serves", noted))
        opened.enter_context(torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext())
        source = tokens[:, :5] if model.config.needs_source else None
        state = model.start(source)
        for segment in tokens.split((9, 5), dim=1):
            h_BLD, state = model(segment, state, losses=losses)
            h.append(h_BLD)
        h.append(model(tokens[:, :9], model.start(source), valid, losses=losses)[0] * valid[..., None])
        assert state is not None
        h.append(model(tokens[:, :2], state.fork())[0])
        weigh = torch.linspace(-1, 1, h_BLD.shape[-1])
        total = sum((one * weigh).sum() for one in h) + sum(losses.values())
    following = float(torch.rand(()))
    slopes = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    slopes = [
        torch.zeros_like(weight) if slope is None else slope
        for weight, slope in zip(model.parameters(), slopes, strict=True)
    ]
    return Found(h, losses, slopes, following, served)


def gap(here: list[Tensor], there: list[Tensor]) -> float:
    """The length of the difference, as a share of the length."""
    ours, theirs = (torch.cat([one.detach().flatten() for one in each]) for each in (here, there))
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_does_what_the_loop_does_with_dropout(variant, dtype):
    model = made(BASE.but(VARIANTS[variant]), dtype)
    fast, slow = tried(model), tried(model, plain=True)
    assert any(fast.served)
    assert not any(slow.served)
    assert fast.next == slow.next
    assert gap(fast.h, slow.h) <= CLOSE[dtype]
    assert gap(fast.slopes, slow.slopes) <= CLOSE[dtype]
    assert fast.losses.keys() == slow.losses.keys() == ({"span"} if "span" in variant else set())
    for name, loss in fast.losses.items():
        assert float(loss.detach()) == pytest.approx(float(slow.losses[name].detach()))


def test_a_source_gets_its_gradient():
    config = Model.Config.parse(_translator()).but(
        {"decoder": "reversible", "decoder.layout": "(sc)x2", "decoder.residual": "pre_norm"}
    )
    model = made(config)
    fast, slow = tried(model), tried(model, plain=True)
    assert fast.served[0]
    encoder = [n for n, (name, _) in enumerate(model.named_parameters()) if name.startswith("encoder")]
    assert all(slow.slopes[n].any() for n in encoder if slow.slopes[n].dim() > 1)
    assert gap(fast.slopes, slow.slopes) <= 1e-10


def test_autocast_is_as_it_was():
    """Values to the last bit. What is found again differs in its last bits, which bf16 can round the other way."""
    model = made(BASE, torch.float32)
    fast, slow = tried(model, autocast=True), tried(model, plain=True, autocast=True)
    assert gap(fast.h, slow.h) == 0
    assert gap(fast.slopes, slow.slopes) < 0.02


def test_a_model_in_bf16_has_streams_that_can_be_found_again():
    model = made(BASE.but(layout="(sf)x12"), torch.bfloat16)
    assert gap(tried(model).slopes, tried(model, plain=True).slopes) < 0.05


def test_replay_without_the_random_numbers_would_show():
    model = made(BASE)
    slow = tried(model, plain=True)
    with mock.patch.object(reversal.Draws, "restore"):
        assert gap(tried(model).slopes, slow.slopes) > 0.01


def test_random_numbers_outside_go_on_as_if_there_was_no_backward_pass():
    model = made(BASE)
    h_BLD, _ = model(ids())
    torch.manual_seed(7)
    h_BLD.sum().backward()
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(7)))


def test_chunks_change_nothing():
    still = BASE.but(dict.fromkeys(DROPS, 0.0))
    whole = made(still)
    for chunks in (2, 5, 14, 40):
        cut = made(still.but({"stack.chunks": chunks}))
        here, there = tried(cut), tried(whole)
        assert gap(here.h, there.h) <= 1e-12
        assert gap(here.slopes, there.slopes) <= 1e-12


def test_a_feed_forward_sees_one_chunk_at_a_time():
    model, seen = made(BASE.but({"stack.chunks": 4})), []
    for sublayer_ in model.stack.sublayers:
        enter = getattr(sublayer_.part, "enter", sublayer_.part.output)
        enter.register_forward_hook(lambda module, given, out: seen.append(given[0].shape[1]))
    model(ids())
    assert seen == 3 * [14, 4, 4, 4, 2]


def test_a_loss_on_the_whole_text_is_not_taken_of_chunks(monkeypatch):
    def forward(self, x_BLD, scene, state=None):
        scene.add_loss("balance", x_BLD.mean())
        return x_BLD, None

    monkeypatch.setattr(Dense, "forward", forward)
    monkeypatch.setattr(Dense, "forward_normed", lambda self, norm, *given: forward(self, *given))
    made(BASE)(ids())
    with pytest.raises(ValueError, match=r"chunks=4: sublayer 1 \(Dense\) adds a loss, .* use chunks=1"):
        made(BASE.but({"stack.chunks": 4}))(ids())


# Memory


def saved(config: Model.Config) -> int:
    """Bytes that a pass stores for its backward pass, weights aside."""
    model, found = made(config, torch.float32), {}
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}

    def store(x: Tensor) -> Tensor:
        where = x.untyped_storage()
        if where.data_ptr() not in weights:
            found[where.data_ptr()] = where.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(store, lambda x: x):
        h_BLD, _ = model(ids(64))
        loss = h_BLD.sum()
    loss.backward()
    return sum(found.values())


def test_what_is_stored_does_not_grow_with_depth():
    shallow, deep = (saved(BASE.but(layout=f"(sf)x{layers}")) for layers in (4, 24))
    assert deep == shallow
    plain = saved(BASE.but({"stack": "plain", "layout": "(sf)x24"}))
    assert plain > 40 * deep


def test_keys_and_values_are_not_stored_until_somebody_asks():
    model = made(BASE)
    with mock.patch.object(type(model.stack), "loop", side_effect=AssertionError("the pass was run again")):
        _, state = model(ids())
        assert not [kept for kept in vars(state.parts[0]).values() if isinstance(kept, Tensor)]
        with pytest.raises(AssertionError, match="run again"):
            state.detach()


def test_a_state_that_is_asked_for_too_late_is_refused():
    model = made(BASE)
    h_BLD, state = model(ids())
    h_BLD.sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    with pytest.raises(ValueError, match=r"were changed since the pass .* call state.detach\(\) before"):
        model(ids(), state)


def test_a_carried_memory_is_there_and_cut_off():
    model = made(BASE.but(XL))
    _, state = model(ids())
    hidden = reversal.tensors(state.parts)
    assert len(hidden) == 3
    assert not any(one.requires_grad for one in hidden)


@pytest.mark.parametrize("variant", ["plain", "span", "span and memory", "kernel with a state"])
def test_a_pass_is_freed_with_what_it_gave(variant, monkeypatch):
    """Without the garbage collector, which does not see what refers to what inside autograd's nodes."""
    passes, model = [], made(BASE.but(VARIANTS[variant]))
    monkeypatch.setattr(reversal, "Pass", lambda *given: passes.append(run := Pass(*given)) or run)
    losses = {}
    h_BLD, state = model(ids(), losses=losses)
    (h_BLD.sum() + sum(losses.values())).backward()
    known = weakref.ref(passes.pop())
    assert known() is not None
    del h_BLD, state, losses
    assert known() is None


def test_weights_that_change_before_the_backward_pass_are_noticed():
    model = made(BASE)
    h_BLD, _ = model(ids())
    with torch.no_grad():
        model.stack.sublayers[0].part.output.weight.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        h_BLD.sum().backward()


# What runs without it


def test_where_nothing_is_gained_the_loop_runs():
    model = made(BASE)
    x_BLD = torch.zeros(1, 3, 32, dtype=torch.float64)
    assert reversal.serves(model.stack, x_BLD, None)
    with torch.no_grad():
        assert not reversal.serves(model.stack, x_BLD, None)
    with sublayer.nn.paths.by_slow_twins():
        assert not reversal.serves(model.stack, x_BLD, None)
    model.requires_grad_(False)
    assert not reversal.serves(model.stack, x_BLD, None)
    assert reversal.serves(model.stack, x_BLD.requires_grad_(), None)


def test_torch_func_sees_the_loop():
    model, served = made(BASE), []

    def read(x_BLD: Tensor) -> Tensor:
        served.append(reversal.serves(model.stack, x_BLD, None))
        return x_BLD.sum()

    torch.func.grad(read)(torch.zeros(1, 3, 32))
    assert served == [False]


def test_a_sublayer_with_hooks_is_run_by_the_loop_and_a_part_with_hooks_is_not():
    model, x_BLD = made(BASE), torch.zeros(1, 3, 32)
    model.stack.sublayers[1].part.register_forward_hook(lambda *given: None)
    assert reversal.serves(model.stack, x_BLD, None)
    model.stack.sublayers[1].register_forward_hook(lambda *given: None)
    assert not reversal.serves(model.stack, x_BLD, None)


def test_checkpoints_leave_it_alone():
    model = made(BASE)
    recompute(model)
    assert reversal.serves(model.stack, torch.zeros(1, 3, 32), None)


# Configs


def test_a_layout_without_pairs_is_refused():
    with pytest.raises(ConfigError, match=r"layout '\(sf\)x2 s' has 5 sublayers, .* in pairs; use an even number"):
        BASE.but(layout="(sf)x2 s")


@pytest.mark.parametrize(
    "residual",
    ["post_norm", "rezero", {"kind": "pre_norm", "add": "gru_gate"}, {"kind": "layer_drop", "inner": "post_norm"}],
)
def test_a_residual_that_cannot_be_taken_away_is_refused(residual):
    with pytest.raises(ConfigError, match=r"residual=\w+ does more than add .* use residual=pre_norm"):
        BASE.but(residual=residual)


def test_a_stack_named_by_its_kind_keeps_layout_and_alphabet():
    assert BASE.but({"stack": "plain"}).diff(BASE).keys() == {"stack.kind", "stack.chunks"}
    with pytest.raises(ConfigError, match="unknown stack kind 'reversable'; did you mean reversible"):
        BASE.but({"stack": "reversable"})


def test_it_costs_what_the_plain_stack_costs():
    assert BASE.cost(20, 5) == BASE.but({"stack": "plain"}).cost(20, 5)
    wide, work = BASE.but({"f.inner": 4096, "s.memory": "none"}), Work(512)
    whole, cut = (one.stack.activation_size(32, work) for one in (wide, wide.but({"stack.chunks": 8})))
    assert cut == whole / 8 == 64 * 4096
