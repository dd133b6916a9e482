"""The Feedback stack: the memory it makes, its fast loop against its plain one, and what cannot be."""

import pytest
import torch

import sublayer
from sublayer.nn.attention.pattern import base as pattern
from sublayer.nn.attention.pattern import lower
from sublayer.nn.feedforward.activation import ACTIVATIONS
from sublayer.nn.stack import Plain, planned
from sublayer.nn.stack.unrolled import backward
from sublayer.testing import LAWS, Case, small
from sublayer.testing.case import by_reference
from tests.covering import cover

BASE = small(sublayer.config("feedback")).but(head="tied")
"""What is compared is what leaves the stack; a head with weights of its own would stand idle."""
SPAN = {"kind": "adaptive", "limit": 5, "ramp": 2, "start": 0.5}
VARIANTS = {
    "weighted": {},
    "unshared": {"shared": False},
    "average": {"compose": "average"},
    "top": {"compose": "top"},
    "one layer": {"compose": {"kind": "layer", "layer": 1}},
    "recurrent": {"compose": "recurrent"},
    "recurrent, unshared": {"compose": "recurrent", "shared": False},
    "transformer": {"compose": "transformer", "shared": False},
    "post-norm": {"residual": "post_norm"},
    "post-norm, unshared": {"residual": "post_norm", "shared": False},
    "biases": {"s.bias": True},
    "rotary": {"position": "rotary"},
    "no positions": {"position": "none"},
    "learned positions": {"position": {"kind": "learned", "limit": 96}},
    "grouped queries": {"s.kv_heads": 2},
    "cache": {"s.memory": "cache"},
    "window": {"s.memory": "cache", "s.pattern": {"kind": "window", "size": 4}},
    "the paper's segments": {"s.memory.span": "paper"},
    "a memory longer than the text": {"s.memory.length": 40},
    "learned spans": {"s.span": SPAN},
    "learned spans, unshared, no positions": {"s.span": SPAN, "position": "none", "shared": False},
    "learned spans, grouped queries, cache": {"s.span": SPAN, "s.kv_heads": 2, "s.memory": "cache"},
    "free layout": {"layout": "s(ff)x2 sf"},
    "gelu": {"f.activation": "gelu"},
    "gated units": {"f": {"kind": "glu", "inner": 24, "activation": "swish", "bias": True}},
}
SLOW = {
    "gates": {"residual": {"kind": "pre_norm", "add": "gru_gate"}},
    "rezero": {"residual": "rezero"},
    "alibi": {"position": "alibi"},
    "shaw": {"position": "shaw"},
    "distances": {"position": "distance"},
    "relative_xl": {"position": "relative_xl"},
    "windows that widen": {"s.pattern": {"kind": "window", "size": 3}, "s.pattern.size": [3, 6]},
}


@cover("changes, law", {**VARIANTS, **SLOW}, ["segmentation", "frozen memory", "padding"])
def test_laws_hold_for_every_option(changes, law):
    LAWS[law](Case(BASE.but(changes), cuts=(2, 1, 4)))


@pytest.mark.parametrize("name", ["unshared", "recurrent", "post-norm", "window", "free layout"])
def test_cost_is_count_for_options_that_change_it(name):
    LAWS["cost = count"](Case(BASE.but(VARIANTS[name]), cuts=(5,)))


@cover("changes, block", VARIANTS, [32, 4])
def test_the_fast_loop_equals_the_plain_one(changes, block, monkeypatch):
    """In values and gradients: one pass, padded, and with a memory; in blocks that the text fills, or not."""
    monkeypatch.setattr(backward, "BLOCK", block)
    served = counted(monkeypatch)
    LAWS["oracle"](Case(BASE.but(changes), cuts=(9,)))
    assert served[0] >= 2


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["dense", "glu"])
def test_the_fast_loop_knows_every_activation(kind, activation, monkeypatch):
    served = counted(monkeypatch)
    LAWS["oracle"](Case(BASE.but({"f": {"kind": kind, "inner": 24, "activation": activation}}), cuts=(5,)))
    assert served[0] >= 2


@pytest.mark.parametrize("changes", SLOW.values(), ids=SLOW)
def test_what_the_fast_loop_does_not_know_goes_by_the_plain_one(changes, monkeypatch):
    served = counted(monkeypatch)
    LAWS["oracle"](Case(BASE.but(changes), cuts=(5,)))
    assert served[0] == 0


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_they_agree_in_fp32(changes):
    trial = Case(BASE.but(changes))
    model, ids = trial.model(torch.float32), trial.ids()
    weights = list(model.parameters())

    def slopes():
        h_BLD, state = model(ids)
        h_BLD = torch.cat([h_BLD, model(ids, state)[0]], dim=1)
        return torch.autograd.grad(h_BLD.square().mean(), weights, allow_unused=True)

    fast = slopes()
    with by_reference():
        slow = slopes()
    for here, there in zip(fast, slow, strict=True):
        if there is not None:
            torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["weighted", "post-norm, unshared", "rotary", "recurrent"])
def test_gradcheck(name):
    config = BASE.but({**VARIANTS[name], "s.heads": 2, "f.inner": 6, "s.memory.length": 3}, dim=8, layout="(sf)x2")
    model = Case(config).model()
    x_BLD = torch.randn(1, 4, 8, dtype=torch.float64, requires_grad=True)
    ids = torch.zeros(1, 4, dtype=torch.long)

    def read(x_BLD):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(model.embedding, "read", lambda ids: x_BLD)
            return model(ids)[0]

    assert torch.autograd.gradcheck(read, (x_BLD,))


def test_layer_drop_is_drawn_once_for_all_places(monkeypatch):
    config = BASE.but({"s.dropout": 0, "f.dropout": 0}, residual={"kind": "layer_drop", "rate": 0.5})
    model, ids = config.build(), Case(BASE).ids()
    served = counted(monkeypatch)
    for seed in range(4):
        torch.manual_seed(seed)
        fast = model(ids)[0]
        torch.manual_seed(seed)
        with by_reference():
            slow = model(ids)[0]
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)
    assert served[0]


def test_memory_is_the_weighted_sum_of_all_layers():
    """Equation 1 by hand, from what the first place puts out."""
    model = Case(BASE).model()
    ids, outputs = Case(BASE).ids(length=1), []
    hooks = [model.stack.sublayers[n].register_forward_hook(lambda m, i, o: outputs.append(o[0])) for n in (1, 3)]
    with torch.no_grad():
        _, state = model(ids)
        x_BLD = model.embedding.read(ids)
    for hook in hooks:
        hook.remove()
    share = model.stack.compose.weight.softmax(0)
    expected = sum(w * x for w, x in zip(share, [x_BLD, *outputs], strict=True))
    torch.testing.assert_close(state.parts[0].x.value, expected)


def test_the_first_place_sees_nothing_and_the_second_only_the_first():
    model, ids = Case(BASE).model(), Case(BASE).ids(length=3)
    other = ids.clone()
    other[:, 0] = (other[:, 0] + 1) % BASE.vocab
    with torch.no_grad():
        moved = (model(ids)[0] - model(other)[0]).abs().amax((0, 2))
    assert (moved > 0).all()


def test_a_memory_of_each_layers_own_input_is_the_plain_transformer(monkeypatch):
    """The limit case, with a place that does not see itself, as section 3.1 has it."""
    monkeypatch.setattr(pattern, "lower", lambda scene, memory: lower(scene, memory).tril(memory - 1))
    config = BASE.but(compose="transformer", shared=False, position="none")
    stack = {name: value for name, value in config.stack.dump().items() if name not in ("compose", "shared")}
    plain = config.but(stack=Plain.Config.parse({**stack, "kind": "plain"})).build().double().eval()
    model, ids = Case(config).model(), Case(config).ids()
    weights = model.state_dict()
    for n in range(0, 4, 2):
        part = f"stack.sublayers.{n}.part"
        both = [weights.pop(f"{part}.{name}.weight") for name in ("query", "key_value")]
        weights[f"{part}.qkv.weight"] = torch.cat(both)
    plain.load_state_dict(weights)
    valid = torch.ones_like(ids, dtype=torch.bool)  # so that the mask is formed, and not left to the kernel
    with torch.no_grad():
        torch.testing.assert_close(plain(ids, None, valid)[0], model(ids)[0])


@pytest.mark.parametrize("kept", ["segment", "cache"])
def test_state_does_not_grow_with_depth(kept):
    sizes = set()
    for layers in (2, 6):
        config = BASE.but({"s.memory": kept}, layout=f"(sf)x{layers}")
        with torch.no_grad():
            model = config.build().eval()
            state = model.frozen(model(Case(config).ids())[1])
        sizes.add(sum(part.k.value.numel() + part.v.value.numel() for part in state.parts if part is not None))
    assert len(sizes) == 1


CROSSED = {
    "plain": {},
    "unshared, post-norm": {
        "shared": False,
        "residual": "post_norm",
        "alphabet.s.memory": {"kind": "segment", "length": 5},
    },
    "pre-norm, rotary": {"residual": "pre_norm", "position": "rotary"},
    "vectors on keys": {"position": {"kind": "relative_key", "clip": 5}},
    "learned spans": {"alphabet.s.span": SPAN},
    "free layout": {"layout": "(scf)(cs)(f)"},
}


def crossed(changes):
    """A Feedback decoder that reads a source."""
    base = small(sublayer.config("transformer"))
    return base.but({"decoder": {**base.decoder.dump(), "kind": "feedback", "layout": "(scf)x2"}}).but(
        {f"decoder.{key}": value for key, value in changes.items()}
    )


@pytest.mark.parametrize("law", LAWS)
def test_laws_hold_for_the_decoder_of_an_encoder_decoder(law):
    LAWS[law](Case(crossed({})))


@pytest.mark.parametrize("block", [32, 4])
@pytest.mark.parametrize("changes", CROSSED.values(), ids=CROSSED)
def test_the_fast_loop_reads_a_source(changes, block, monkeypatch):
    monkeypatch.setattr(backward, "BLOCK", block)
    served = counted(monkeypatch)
    LAWS["oracle"](Case(crossed(changes), cuts=(9,)))
    assert served[0] >= 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["twin", "native"])
@pytest.mark.parametrize("changes", CROSSED.values(), ids=CROSSED)
def test_padding_of_a_source_is_not_seen(changes, dtype, monkeypatch):
    """A row whose source is padded, one whose is whole, and one that has nothing to see but padding."""
    served = counted(monkeypatch)
    trial = Case(crossed({**changes, "alphabet.f.activation": "gelu"}), batch=3)
    ids, source = trial.ids(length=7), trial.ids(length=6, key=5) % 53
    valid = torch.arange(6) < torch.tensor([4, 6, 0])[:, None]

    def read(model):
        h_BLD, state = model(ids, model.start(source, valid))
        h_BLD = torch.cat([h_BLD, model(ids, state)[0]], dim=1)
        return [h_BLD.detach(), *torch.autograd.grad(h_BLD.sin().sum(), list(model.parameters()), allow_unused=True)]

    model = trial.model(dtype)
    found = read(model)
    assert served[0] == 2
    with by_reference():
        expected = read(model.double())
    for ours, theirs in zip(found, expected, strict=True):
        if theirs is not None:
            size = max(1.0, float(theirs.abs().max()))
            torch.testing.assert_close(
                ours.double() / size, theirs / size, rtol=0, atol=1e-5 if dtype.itemsize == 4 else 1e-10
            )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compose": {"kind": "layer", "layer": 9}}, r"compose\.layer=9: the layout has 2 layers.*use 0 .* to 2"),
        ({"shared": False, "s.memory": "cache"}, r"shared=false: .*memory=cache stores one set.*use memory=segment"),
        ({"compose": "recurrent", "s.memory": "cache"}, r"compose=recurrent: .*use memory=segment"),
        ({"s.pattern": {"kind": "window", "size": 50}}, r"pattern\.size=50: attention spans 49 tokens.*up to 6"),
        ({"layout": "(f)x2"}, "has no attention, so nothing reads the memory"),
        ({"compose": "weigthed"}, "weigthed.*weighted"),
        ({"s.heads": [2, 4]}, r"shared=true: .*heads differs.*shared=false"),
    ],
)
def test_impossible_pairs_are_refused_in_a_line(changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        BASE.but(changes)
    assert "\n" not in str(caught.value).strip()


def counted(monkeypatch):
    """How often the fast loop runs."""
    calls, run = [0], planned.run

    def counting(*args):
        calls[0] += 1
        return run(*args)

    monkeypatch.setattr(planned, "run", counting)
    return calls


@pytest.mark.parametrize("padding", [slice(0, 3), slice(4, 7)], ids=["before", "after"])
@pytest.mark.parametrize("name", ["weighted", "learned spans"])
def test_padding_at_the_ends_of_rows_goes_by_the_fast_loop(name, padding, monkeypatch):
    served = counted(monkeypatch)
    trial = Case(BASE.but(VARIANTS[name]))
    model, ids, valid = trial.model(), trial.ids()[:, :7], torch.ones(2, 7, dtype=torch.bool)
    valid[0, padding] = False

    def read():
        h_BLD, _ = model(ids, None, valid)
        return h_BLD[valid], torch.autograd.grad(h_BLD[valid].square().sum(), list(model.parameters()))

    fast, slopes = read()
    assert served[0] == 1
    with by_reference():
        slow, expected = read()
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(slopes, expected)


def test_padding_in_the_middle_of_a_row_goes_by_the_plain_loop(monkeypatch):
    served = counted(monkeypatch)
    trial = Case(BASE)
    model, ids, valid = trial.model(), trial.ids()[:, :7], torch.ones(2, 7, dtype=torch.bool)
    valid[0, 3] = False
    model(ids, None, valid)
    assert served[0] == 0
