"""The compressive memory: its statement by hand; what it equals; what trains what; any padding, any length."""

import math
import random

import pytest
import torch

import sublayer
from sublayer.evaluation import by_age, score
from sublayer.evaluation.protocol import with_memory
from sublayer.nn.attention import MultiHead
from sublayer.nn.config import ConfigError
from sublayer.nn.memory import Compressive
from sublayer.nn.part import Slot, Work
from sublayer.nn.position import Alibi
from sublayer.nn.scene import Scene
from sublayer.testing import Case, small
from sublayer.testing.case import same
from sublayer.testing.laws.counts import count_flops

BASE = small(sublayer.config("compressive"))
COMPRESSORS = {
    "mean": {"kind": "mean"},
    "max": {"kind": "max"},
    "convolution": {"kind": "convolution"},
    "auto-encoding": {"kind": "convolution", "loss": "auto_encoding"},
    "dilated": {"kind": "dilated", "group": 2},
    "most used": {"kind": "most_used", "group": 2},
}
UNLIKE = ["convolution", "dilated", "most used"]
"""Those that differ in what the memory does with them; the laws try all."""


def config(**memory):
    settings = {"kind": "compressive", "length": 5, "compressed": 4, "rate": 3, **memory}
    return BASE.but({"s.memory": settings})


def read(model, ids, cuts, valid=None):
    """Segment after segment, with a state frozen on the way if there are more than two."""
    state, hidden = None, []
    reals = [None] * len(cuts) if valid is None else valid.split(cuts, 1)
    for n, (segment, real) in enumerate(zip(ids.split(cuts, 1), reals, strict=True)):
        h_BLD, state = model(segment, state, real)
        state = model.frozen(state) if n == 2 and not torch.is_grad_enabled() else state
        hidden.append(h_BLD)
    return torch.cat(hidden, dim=1)


def test_attention_is_what_the_statement_says():
    """One layer, one head, by hand: tokens from E on, and slots that stand at the middle of their tokens."""
    M, C, c, cuts = 5, 3, 4, (3, 6, 1, 1, 7, 5, 1, 1, 1, 4)
    memory = Compressive.Config(length=M, compressed=C, rate=c, compressor={"kind": "mean"})
    part = MultiHead.Config(heads=1, bias=False, memory=memory).build(Slot(8, Alibi.Config())).double()
    x_1LD, state, found, expected, start = torch.randn(1, sum(cuts), 8, dtype=torch.float64), None, [], [], 0
    q, k, v = (x_1LD[0] @ part.qkv.weight.T).chunk(3, dim=-1)
    for length in cuts:
        scene = Scene(torch.arange(start, start + length)[None], start)
        y_1LD, state = part(x_1LD[:, start : start + length], scene, state)
        found.append(y_1LD)
        gone = c * math.ceil(max(0, start - M) / c)
        for i in range(start, start + length):
            keys = [(n * c + c // 2, range(n * c, n * c + c)) for n in range(gone // c)][-C:]
            keys += [(j, [j]) for j in range(gone, i + 1)]
            assert len(keys) <= M + C + length
            slots_k, slots_v = (torch.stack([w[list(of)].mean(0) for _, of in keys]) for w in (k, v))
            distance = torch.tensor([i - j for j, _ in keys])
            weights = (slots_k @ q[i] / math.sqrt(8) - 2.0**-8 * distance).softmax(0)
            expected.append(part.output(weights @ slots_v))
        start += length
    same(torch.cat(found, 1)[0], torch.stack(expected), 1e-12, "by hand")


@pytest.mark.parametrize("position", ["relative_xl", "rotary"])
def test_equals_transformer_xl(position):
    """With one token a slot and nothing done to it: Transformer-XL with the longer memory. Without slots, or before
    there are any: with the shorter one. In values and in gradients."""
    ids, cuts = torch.randint(61, (2, 31)), (6, 1, 3, 9, 2, 10)
    before = (3, 2)  # as many tokens as are stored: nothing is compressed yet
    identity = {"compressed": 7, "rate": 1, "compressor": {"kind": "mean"}}
    for memory, length, read_cuts in ((identity, 12, cuts), ({"compressed": 0}, 5, cuts), ({}, 5, (*before, 4))):
        here = Case(config(**memory).but(position=position)).model()
        there = Case(BASE.but({"s.memory": {"kind": "segment", "length": length}}, position=position)).model()
        shared = {name: weight for name, weight in here.state_dict().items() if "compressor" not in name}
        there.load_state_dict(shared)
        text = ids[:, : sum(read_cuts)]
        both = [read(model, text, read_cuts) for model in (here, there)]
        same(both[0], both[1], 1e-11, f"{memory}: values")
        for one in both:
            one.square().sum().backward()
        for name, weight in there.named_parameters():
            mine = here.get_parameter(name).grad
            assert (mine is None) == (weight.grad is None)
            if mine is not None and weight.grad is not None:
                same(mine, weight.grad, 1e-10, f"{memory}: gradient of {name}")


@pytest.mark.parametrize("name", UNLIKE)
def test_padding_anywhere_changes_nothing(name):
    """Rows with padding anywhere, so that their groups end at different times: each as it is alone, frozen too."""
    model, draw = Case(config(compressor=COMPRESSORS[name])).model(), random.Random(0)
    cuts = [6, 1, 5, 8, 1, 1, 1, 9, 1, 6, 12]
    ids = torch.randint(61, (3, sum(cuts)))
    valid = torch.tensor([[True] * 24 + [draw.random() < share for _ in range(27)] for share in (1, 0.6, 0.2)])
    with torch.no_grad():
        padded = read(model, ids, cuts, valid)
        for row, real in enumerate(valid):
            own_cuts = [int(part.sum()) for part in real.split(cuts)]
            state, hidden = None, []
            for segment in ids[row][real].split(own_cuts):
                if len(segment):
                    h_BLD, state = model(segment[None], state)
                    hidden.append(h_BLD)
            same(padded[row][real], torch.cat(hidden, 1)[0], 1e-11, f"{name}, row {row}")


LEARNED = ["convolution", "auto-encoding", "dilated"]


@pytest.mark.parametrize("name", LEARNED)
def test_a_compressor_learns_from_its_loss_alone_and_nothing_else_does(name):
    model = Case(config(compressor=COMPRESSORS[name])).model()
    own = {path for path, _ in model.named_parameters() if "compressor" in path}
    ids, losses = torch.randint(61, (2, 40)), {}
    hidden, state = [], None
    for segment in ids.split(8, dim=1):
        h_BLD, state = model(segment, state, losses=losses)
        hidden.append(h_BLD)
    main = model.head.loss(torch.cat(hidden, 1), ids)
    for loss, trained in ((main, {path for path, _ in model.named_parameters()} - own), (losses["compression"], own)):
        model.zero_grad()
        loss.backward(retain_graph=True)
        assert {path for path, weight in model.named_parameters() if weight.grad is not None} == trained


@pytest.mark.parametrize("name", LEARNED)
def test_the_loss_falls(name):
    """Trained by it alone."""
    model, ids, found = Case(config(compressor=COMPRESSORS[name])).model(torch.float32), torch.randint(61, (4, 20)), []
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(10):
        losses = {}
        state = model(ids[:, :10], None, losses=losses)[1]
        model(ids[:, 10:], state, losses=losses)
        optimiser.zero_grad()
        losses["compression"].backward()
        optimiser.step()
        found.append(losses["compression"].item())
    assert found[-1] < 0.9 * found[0]


def test_nothing_is_lost_where_tokens_are_alike():
    """A map begins as the mean."""
    model, ids, losses = config().build().eval(), torch.full((1, 9), 7), {}
    model(ids, model(ids, None, losses=losses)[1], losses=losses)
    assert losses["compression"].item() < 1e-10


@pytest.mark.parametrize("name", UNLIKE)
def test_cost_after_long_texts(name):
    """FLOPs and state after as many tokens as fill all slots, wherever the groups then end."""
    cut = config(compressor=COMPRESSORS[name], compressed=5)
    with torch.device("meta"):
        model = cut.build().eval()
    case = Case(cut)
    for length, memory in ((7, 20), (1, 41), (16, 43)):
        work = cut.cost(length, memory).flops
        assert count_flops(model, length, memory) == work.embedding + work.stack + work.head
        with torch.no_grad():
            state = case.model()(case.ids(memory), None)[1]
            for frozen in (False, True):
                after = case.model().frozen(state.fork()) if frozen else state.fork()
                after = case.model()(case.ids(length), after)[1]
                assert after.size == 2 * cut.state_size(length, memory, frozen=frozen)


def test_flops_of_a_frozen_state():
    """Generation projects the new token, and the slots when a group is complete."""
    cut = config()
    slot = cut.stack.slot(cut.dim)
    part = cut.stack.alphabet["s"]
    hidden, frozen = (part.flops(slot, Work(1, 40, frozen=frozen)) for frozen in (False, True))
    assert frozen < hidden / 3


def test_longer_memories_than_trained():
    model = Case(config()).model(torch.float32)
    for tokens in (5, 17, 40, 41):
        longer = with_memory(model, tokens).config
        assert longer.stack.alphabet["s"].memory.reach == tokens
    text = torch.randint(61, (60,)).numpy()
    found = {score(model, text, length=8, memory=memory).nats for memory in (None, 17, 40)}
    assert len(found) == 2  # 17 is what it has


def test_attention_by_age():
    """All of it is somewhere, and where tokens are compressed a third as many keys share it."""
    model = Case(config(length=30, compressed=22)).model(torch.float32)
    bins = by_age(model, torch.randint(61, (400,)).numpy(), length=8)
    assert sum(one.mass for one in bins) == pytest.approx(1)
    width = bins[0].last + 1
    young = [one.keys for one in bins if one.first > 8 and one.last < 28]
    old = [one.keys for one in bins if one.first > 40 and one.last < 80]
    assert max(young) == pytest.approx(width, rel=0.1)
    assert sum(old) / len(old) < 0.4 * min(young)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"length": 4, "rate": 6}, r"length=4: compressor=convolution compresses 6 tokens .* at least 5, or a smaller"),
        ({"compressed": -1}, r"compressed: .* greater than or equal to 0"),
        ({"compressor": "mena"}, r"mena.*mean"),
        ({"compressor": {"kind": "convolution", "loss": "none"}}, r"compressor\.(convolution\.)?loss"),
    ],
)
def test_wrong_settings_are_one_line(changes, message):
    with pytest.raises(ConfigError, match=message) as error:
        config(**changes)
    assert "\n" not in str(error.value)


def test_patterns_that_count_tokens_are_refused():
    with pytest.raises(ConfigError, match="slots of memory=compressive are not tokens"):
        sublayer.config("gpt2", {"s.memory": "compressive", "s.pattern": "strided"})
