"""Spans that heads learn: the paper's mask, what it saves and what it costs; the laws hold with it."""

from unittest import mock

import pytest
import torch

import sublayer
from sublayer.nn.attention import AdaptiveSpan, MultiHead
from sublayer.nn.attention.kernel import softmax
from sublayer.nn.memory import KeyValues, Segment
from sublayer.nn.part import Slot
from sublayer.nn.scene import Scene
from sublayer.testing import LAWS, Case, small
from sublayer.testing.case import same
from sublayer.training.recompute import recompute
from tests.covering import cover

SPAN = {"kind": "adaptive", "limit": 5, "ramp": 2, "start": 0.5}
PLAIN, FEEDBACK = small(sublayer.config("gpt2")).but({"s.span": SPAN}), small(sublayer.config("feedback-enwik8"))
MODELS = {
    "cache": PLAIN,
    "segments": small(sublayer.config("transformer-xl")).but({"s.span": SPAN}),
    "exact segments": PLAIN.but({"s.memory": {"kind": "segment", "length": 5, "span": "exact"}}),
    "by blocks": PLAIN.but({"s.span.limit": 1}, position="rotary"),
    "weights in the open": PLAIN.but(position="distance"),
    "both ways": small(sublayer.config("bert-base")).but({"s.span": SPAN}),
    "feedback": FEEDBACK.but(shared=True),
    "feedback, unshared": FEEDBACK,
    "feedback, cache": FEEDBACK.but({"s.memory": "cache", "shared": True}),
}


def spans(share, limit=6, ramp=4, **options):
    span = AdaptiveSpan.Config(limit=limit, ramp=ramp, **options).build(len(share))
    span.share_H = torch.nn.Parameter(torch.tensor(share))
    return span


def line(length):
    return Scene(torch.arange(length)[None])


@cover("name, law", list(MODELS), list(LAWS), each=4)
def test_laws(name, law):
    LAWS[law](Case(MODELS[name]))


def test_the_mask_is_the_papers():
    """By hand: 1 up to z, falling over 4 places, nothing beyond the limit."""
    apart_BLM = torch.arange(9)[None, None]
    m_HM = spans([0.0, 0.25, 1.0]).mask(apart_BLM, line(1))[0, :, 0]
    expected = [
        [1, 0.75, 0.5, 0.25, 0, 0, 0, 0, 0],
        [1, 1, 0.875, 0.625, 0.375, 0.125, 0, 0, 0],
        [1, 1, 1, 1, 1, 1, 1, 0, 0],
    ]
    assert m_HM.tolist() == expected


def test_fading_is_masking_and_summing_to_one_again():
    span, apart_BLM = spans([0.1, 0.6]).double(), torch.arange(8)[None, None]
    scores_HM, scene = torch.randn(2, 8, dtype=torch.float64), line(1)
    masked_HM = scores_HM.softmax(-1) * span.mask(apart_BLM, scene)[0, :, 0]
    faded_HM = (scores_HM + span.fade(apart_BLM, scene, torch.float64)[0, :, 0]).softmax(-1)
    torch.testing.assert_close(faded_HM, masked_HM / masked_HM.sum(-1, keepdim=True))


@pytest.mark.parametrize(("share", "seen"), [(0.0, 3), (0.5, 6), (1.0, 6)])
def test_a_head_sees_what_is_nearer_than_its_span_and_the_ramp(share, seen):
    part = MultiHead.Config(heads=1, span=AdaptiveSpan.Config(limit=6, ramp=4, start=share)).build(Slot(8))
    x_BLD = torch.randn(1, 12, 8, requires_grad=True)
    (slope,) = torch.autograd.grad(part(x_BLD, line(12))[0][0, -1].sum(), x_BLD)
    assert slope[0].any(-1).tolist() == [False] * (11 - seen) + [True] * (seen + 1)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_not_read_would_change_nothing(name):
    """In values and gradients, against spans that are taken to be as long as their limit."""
    trial = Case(MODELS[name], cuts=(9,))
    model = trial.model()
    for weight_name, weight in model.named_parameters():
        if weight_name.endswith("share_H"):
            weight.data.fill_(0.3)

    def read():
        h_BLD, state = model(trial.ids())
        outputs = [h_BLD] if state is None else [h_BLD, model(trial.ids(key=1), state)[0]]
        return [*outputs, *torch.autograd.grad(sum(h.sin().sum() for h in outputs), list(model.stack.parameters()))]

    trimmed = read()
    with mock.patch.object(AdaptiveSpan, "sees", lambda self, scene: self.config.limit):
        whole = read()
    for here, there in zip(trimmed, whole, strict=True):
        same(here, there, 1e-12, name)


def test_work_follows_the_longest_span_in_use():
    """Keys before it are neither projected nor multiplied, in training too."""
    read = []
    attend = softmax.attend
    config = MultiHead.Config(
        heads=2, span=AdaptiveSpan.Config(limit=6, ramp=2), memory=Segment.Config(length=6, span="exact")
    )
    part = config.build(Slot(8))
    with mock.patch.object(softmax, "attend", lambda q, k, *rest: read.append(k.shape[2]) or attend(q, k, *rest)):
        for share in (0.0, 0.5, 1.0):
            torch.nn.init.constant_(part.span.share_H, 0.0)
            part.span.share_H.data[1] = share
            _, state = part(torch.randn(1, 9, 8), line(9))
            part(torch.randn(1, 1, 8), Scene(torch.tensor([[9]]), start=9), state)
    assert read == [9, 1 + 1, 9, 4 + 1, 9, 6 + 1]
    assert len(state) == 9  # hidden states, which a longer span may come to need


def test_keys_are_kept_as_far_as_heads_look_now():
    trial = Case(MODELS["feedback, unshared"])
    model = trial.model()
    for n in range(2):
        torch.nn.init.zeros_(model.stack.readers(n)[0].span.share_H)
    with torch.no_grad():
        state = model.frozen(model(trial.ids())[1])
    assert {len(part) for part in state.parts if isinstance(part, KeyValues)} == {1}


@pytest.mark.parametrize("name", ["cache", "feedback", "feedback, unshared"])
def test_training_loses_the_mean_span_of_each_layer(name):
    model = MODELS[name].but({"s.span.loss": 0.01, "s.span.start": 0.6}).build()
    losses = {}
    model(Case(MODELS[name]).ids(), losses=losses)
    assert losses["span"].item() == pytest.approx(2 * 0.01 * 0.6 * 5)
    losses = {}
    model.eval()(Case(MODELS[name]).ids(), losses=losses)
    assert not losses


@pytest.mark.parametrize("name", ["cache", "feedback"])
def test_spans_shrink_where_context_is_useless(name):
    """On tokens drawn at random, with the loss; without it nothing pulls them in."""
    ends = []
    for loss in (0.05, 0.0):
        torch.manual_seed(0)
        config = MODELS[name].but({"s.span.loss": loss, "s.span.start": 0.9, "s.dropout": 0, "f.dropout": 0}, vocab=7)
        model = config.build()
        optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(40):
            ids, losses = torch.randint(7, (4, 9)), {}
            h_BLD, _ = model(ids[:, :-1], losses=losses)
            optimiser.zero_grad()
            (model.head.loss(h_BLD, ids[:, 1:]) + losses["span"]).backward()
            optimiser.step()
        shares = [weight.clamp(0, 1) for name, weight in model.named_parameters() if name.endswith("share_H")]
        ends.append(torch.cat(shares).mean().item())
    assert ends[0] < 0.4 < ends[1]


@pytest.mark.parametrize(
    ("share", "to", "passes"), [(-0.1, 1, 0), (-0.1, -1, 6), (1.1, 1, 6), (1.1, -1, 0), (0.0, 1, 6)]
)
def test_what_stands_outside_is_led_back_and_not_on(share, to, passes):
    span = spans([share])
    (span.z(line(1)) * to).sum().backward()
    assert float(span.share_H.grad) == passes * to


def test_sublayers_may_be_run_again_in_the_backward_pass():
    slopes = []
    for again in (False, True):
        model = Case(PLAIN).model().train()
        if again:
            recompute(model)
        losses = {}
        h_BLD, _ = model(Case(PLAIN).ids(), losses=losses)
        (h_BLD.sin().sum() + losses["span"]).backward()
        slopes.append([weight.grad for weight in model.stack.parameters()])
    for here, there in zip(*slopes, strict=True):
        torch.testing.assert_close(here, there)


def test_a_bf16_model_counts_places_exactly():
    span = spans([0.5, 1.0], limit=8192, ramp=32).bfloat16()
    apart_BLM = torch.tensor([[[4096, 4112, 4127, 4128]]])
    assert span.mask(apart_BLM, line(1))[0, 0, 0].tolist() == [1, 0.5, 1 / 32, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"s.span.ramp": 0}, r"span\.ramp.*greater than or equal to 2, got 0"),
        ({"s.span.limit": 0}, r"span\.limit.*greater than or equal to 1, got 0"),
        ({"s.span.start": 2}, r"span\.start.*less than or equal to 1, got 2"),
        ({"s.span.limit": 6}, r"span\.limit=6: .*memory\.length=5 stores fewer; use a limit up to 5, or a longer"),
        ({"s.span": "adaptiv"}, "unknown span kind 'adaptiv'; did you mean adaptive"),
    ],
)
@pytest.mark.parametrize("name", ["exact segments", "feedback, unshared"])
def test_what_cannot_be_is_refused_in_a_line(name, changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        MODELS[name].but(changes)
    assert "\n" not in str(caught.value).strip()
