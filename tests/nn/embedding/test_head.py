"""Hidden vectors to scores: closed forms, each kind against its formula, and what is refused."""

import copy

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from sublayer.nn.embedding import (
    AdaptiveEmbedding,
    AdaptiveSoftmax,
    Classify,
    Embedding,
    FactorisedEmbedding,
    Head,
    Label,
    LinearHead,
    MaskedLM,
    MixtureOfSoftmaxes,
    Regress,
    SpanHead,
    TiedHead,
    TokenEmbedding,
    cross_entropy,
)

VOCAB, DIM = 37, 16
TOKEN, NARROW = TokenEmbedding.Config(), FactorisedEmbedding.Config(rank=5)
PAIRS = [
    (LinearHead.Config(), TOKEN),
    (LinearHead.Config(bias=True), AdaptiveEmbedding.Config(cutoffs=(9,))),
    (TiedHead.Config(), TOKEN),
    (TiedHead.Config(bias=True), TOKEN),
    (TiedHead.Config(bias=True), NARROW),
    (TiedHead.Config(projection="shared"), NARROW),
    (MixtureOfSoftmaxes.Config(components=3), NARROW),
    (MixtureOfSoftmaxes.Config(components=2, bias=True, tied=True), TOKEN),
    (MaskedLM.Config(), TOKEN),
    (MaskedLM.Config(), NARROW),
    (Label.Config(classes=5), NARROW),
    (Label.Config(classes=3, bias=True), TOKEN),
    (Classify.Config(classes=3, dropout=0.1), TOKEN),
    (SpanHead.Config(), TOKEN),
    (Regress.Config(dropout=0.1), TOKEN),
    (Regress.Config(outputs=3), TOKEN),
]
each_pair = pytest.mark.parametrize(("config", "embedding"), PAIRS, ids=lambda config: config.tag)
each_word_pair = pytest.mark.parametrize(("config", "embedding"), PAIRS[:-4], ids=lambda config: config.tag)


def built(config: Head.Config, embedding: Embedding.Config) -> tuple[Head, Embedding]:
    torch.manual_seed(0)
    below = embedding.build(VOCAB, DIM)
    head = config.build(VOCAB, DIM, below)
    for weight in (*below.parameters(), *head.parameters()):
        torch.nn.init.normal_(weight, std=0.5)
    return head.double().eval(), below.double().eval()


@each_pair
def test_closed_forms_are_the_counts(config: Head.Config, embedding: Embedding.Config):
    with torch.device("meta"):
        head = config.build(VOCAB, DIM, embedding.build(VOCAB, DIM))
        with FlopCounterMode(display=False) as counter:
            head(torch.empty(1, 11, DIM))
    assert config.params(VOCAB, DIM, embedding) == sum(weight.numel() for weight in head.parameters())
    assert config.flops(VOCAB, DIM, embedding, 11) == counter.get_total_flops()


@each_pair
def test_round_trip(config: Head.Config, embedding: Embedding.Config):
    assert Head.Config.from_json(config.to_json()) == config
    assert Head.Config.from_toml(config.to_toml()) == config


@each_word_pair
@pytest.mark.parametrize("large", [400, 2**24])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_follows_from_log_probs(monkeypatch, config, embedding, large, smoothing, weighted):
    monkeypatch.setattr(cross_entropy, "LARGE", large)
    head, below = built(config, embedding)
    h_BLD = torch.randn(3, 5, DIM, dtype=torch.float64, requires_grad=True)
    target = torch.randint(head.classes, (3, 5))
    target[1, 2:] = -100
    weights = torch.rand(3, 5, dtype=torch.float64) if weighted else torch.ones(3, 5, dtype=torch.float64)
    log_p_BLV = head.log_probs(h_BLD)
    torch.testing.assert_close(log_p_BLV.exp().sum(-1), torch.ones(3, 5, dtype=torch.float64))
    counts = target != -100
    nll = -log_p_BLV[counts].gather(1, target[counts][:, None])[:, 0]
    each = (1 - smoothing) * nll - smoothing * log_p_BLV[counts].mean(-1)
    there = (each * weights[counts]).sum() / weights[counts].sum()
    here = head.loss(h_BLD, target, weights if weighted else None, smoothing)
    torch.testing.assert_close(here, there)
    leaves = [h_BLD, *head.parameters(), *below.parameters()]
    ours = torch.autograd.grad(here, leaves, allow_unused=True)
    theirs = torch.autograd.grad(there, leaves, allow_unused=True)
    torch.testing.assert_close([x for x in ours if x is not None], [x for x in theirs if x is not None])
    assert all(grad is not None for grad in ours[: 1 + len(list(head.parameters()))])


def test_tied_reads_scores_off_the_embedding():
    h_BLD = torch.randn(2, 3, DIM, dtype=torch.float64)
    head, below = built(TiedHead.Config(bias=True), TOKEN)
    torch.testing.assert_close(head(h_BLD), h_BLD @ below.weight_VD.T + head.bias_V)
    head, below = built(TiedHead.Config(), NARROW)
    torch.testing.assert_close(head(h_BLD), h_BLD @ head.project.weight.T @ below.weight_VE.T)
    head, below = built(TiedHead.Config(projection="shared"), NARROW)
    torch.testing.assert_close(head(h_BLD), h_BLD @ below.project.weight @ below.weight_VE.T)


def test_a_tie_holds_through_copies_and_is_saved_once():
    embedding = TOKEN.build(VOCAB, DIM)
    model = torch.nn.ModuleDict({"embedding": embedding, "head": TiedHead.Config().build(VOCAB, DIM, embedding)})
    twin = copy.deepcopy(model).double()
    assert list(twin.state_dict()) == ["embedding.weight_VD"]
    with torch.no_grad():
        twin["embedding"].weight_VD.zero_()
    assert not twin["head"](torch.randn(1, 1, DIM, dtype=torch.float64)).any()


def test_opt_350m_projects_on_the_way_out_with_a_matrix_of_its_own():
    below = FactorisedEmbedding.Config(rank=512)
    assert below.params(50_272, 1024) + TiedHead.Config().params(50_272, 1024, below) == 50_272 * 512 + 2 * 512 * 1024


def test_mixture_is_a_sum_of_softmaxes():
    head, below = built(MixtureOfSoftmaxes.Config(components=3, bias=True, tied=True), TOKEN)
    h_ND = torch.randn(7, DIM, dtype=torch.float64)
    prior_NC = F.softmax(h_ND @ head.prior.weight.T, dim=-1)
    p_NV = sum(
        prior_NC[:, c, None]
        * F.softmax(
            torch.tanh(h_ND @ head.enter.weight[c * DIM : (c + 1) * DIM].T) @ below.weight_VD.T + head.bias_V, -1
        )
        for c in range(3)
    )
    torch.testing.assert_close(head.log_probs(h_ND).exp(), p_NV)


def test_masked_lm_is_berts():
    head, below = built(MaskedLM.Config(), TOKEN)
    h_BLD = torch.randn(2, 3, DIM, dtype=torch.float64)
    inner = F.gelu(head.enter(h_BLD))
    inner = F.layer_norm(inner, (DIM,), head.norm.weight, head.norm.bias, eps=1e-12)
    torch.testing.assert_close(head(h_BLD), inner @ below.weight_VD.T + head.bias_V)


def test_classify_reads_the_first_token():
    head, _ = built(Classify.Config(classes=3), TOKEN)
    h_BLD = torch.randn(4, 5, DIM, dtype=torch.float64)
    scores_BC = head.output(torch.tanh(head.pool(h_BLD[:, 0])))
    torch.testing.assert_close(head(h_BLD), scores_BC)
    torch.testing.assert_close(head.log_probs(h_BLD), F.log_softmax(scores_BC, -1))
    target, weights = torch.tensor([0, 2, 1, -100]), torch.tensor([1.0, 0.0, 2.0, 5.0], dtype=torch.float64)
    torch.testing.assert_close(head.loss(h_BLD, target), F.cross_entropy(scores_BC, target))
    each = F.cross_entropy(scores_BC[:3], target[:3], reduction="none")
    torch.testing.assert_close(head.loss(h_BLD, target, weights), (each[0] + 2 * each[2]) / 3)
    with pytest.raises(ValueError, match="target: 3 is outside the 3 classes"):
        head.loss(h_BLD, torch.tensor([0, 1, 2, 3]))
    assert Classify.Config.pools
    assert not SpanHead.Config.pools
    assert SpanHead.Config.over_positions


def test_regress_is_the_mean_squared_error():
    head, _ = built(Regress.Config(), TOKEN)
    h_BLD, target_B = torch.randn(4, 5, DIM, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    y_B = head.output(torch.tanh(head.pool(h_BLD[:, 0])))[:, 0]
    torch.testing.assert_close(head(h_BLD)[:, 0], y_B)
    torch.testing.assert_close(head.loss(h_BLD, target_B), F.mse_loss(y_B, target_B))
    torch.testing.assert_close(head.loss(h_BLD, target_B[:, None]), F.mse_loss(y_B, target_B))
    weights = torch.tensor([1.0, 0.0, 3.0, 0.0], dtype=torch.float64)
    each = (y_B - target_B).square()
    torch.testing.assert_close(head.loss(h_BLD, target_B, weights), (each[0] + 3 * each[2]) / 4)
    wide, _ = built(Regress.Config(outputs=3), TOKEN)
    target_BC = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(wide.loss(h_BLD, target_BC), F.mse_loss(wide(h_BLD), target_BC))
    with pytest.raises(ValueError, match=r"target: expected \(4, 3\), 3 numbers a row, got \(4,\)"):
        wide.loss(h_BLD, target_B)
    with pytest.raises(ValueError, match="no probabilities"):
        head.log_probs(h_BLD)
    with pytest.raises(ValueError, match=r"smoothing=0\.1: head regress"):
        head.loss(h_BLD, target_B, smoothing=0.1)


@each_pair
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_padded_row_has_the_loss_and_scores_of_the_row_alone(config, embedding, side, smoothing):
    smoothing = smoothing if config.has_probabilities else 0.0
    head, _ = built(config, embedding)
    ids_BL = torch.randint(VOCAB, (2, 7), generator=torch.Generator().manual_seed(3))
    h_BLD = torch.randn(2, 7, DIM, dtype=torch.float64, requires_grad=True)
    real = slice(3, 7) if side == "left" else slice(0, 4)
    valid_BL = torch.zeros(2, 7, dtype=torch.bool)
    valid_BL[0], valid_BL[1, real] = True, True
    target = head.example_target(ids_BL, valid_BL)
    padded = head.loss(h_BLD[1:], target[1:], smoothing=smoothing, valid_BL=valid_BL[1:])
    alone = head.loss(h_BLD[1:, real], head.example_target(ids_BL[1:, real]), smoothing=smoothing)
    torch.testing.assert_close(padded, alone)
    (grad_BLD,) = torch.autograd.grad(padded, h_BLD)
    assert grad_BLD.isfinite().all()
    assert not grad_BLD[1][~valid_BL[1]].any()
    torch.testing.assert_close(grad_BLD[1, real], torch.autograd.grad(alone, h_BLD)[0][1, real])
    both = head.loss(h_BLD, target, smoothing=smoothing, valid_BL=valid_BL)
    first = head.loss(h_BLD[:1], head.example_target(ids_BL[:1]), smoothing=smoothing)
    rows = torch.tensor([1.0, 1.0]) if config.pools or config.over_positions else torch.tensor([7.0, 4.0])
    torch.testing.assert_close(both, (rows[0] * first + rows[1] * alone) / rows.sum())
    for score in (head, head.log_probs) if config.has_probabilities else (head,):
        got, expected = score(h_BLD, valid_BL)[1], score(h_BLD[1:, real])[0]
        torch.testing.assert_close(got if config.pools else got[real], expected)
    if config.over_positions:
        assert not head.log_probs(h_BLD, valid_BL)[1][~valid_BL[1]].exp().any()


def test_a_row_of_padding_alone_gives_numbers_and_a_target_on_padding_is_refused():
    head, _ = built(SpanHead.Config(), TOKEN)
    h_BLD, valid_BL = torch.randn(2, 5, DIM, dtype=torch.float64), torch.zeros(2, 5, dtype=torch.bool)
    valid_BL[0, :3] = True
    target = torch.tensor([[0, 2], [-100, -100]])
    torch.testing.assert_close(head.loss(h_BLD, target, valid_BL=valid_BL), head.loss(h_BLD[:1, :3], target[:1]))
    assert head.log_probs(h_BLD, valid_BL)[1].isfinite().all()
    with pytest.raises(ValueError, match="starts or ends on padding"):
        head.loss(h_BLD, torch.tensor([[0, 3], [-100, -100]]), valid_BL=valid_BL)
    with pytest.raises(ValueError, match="target: 7 is outside the 5 classes"):
        head.loss(h_BLD, torch.tensor([[0, 7], [-100, -100]]), valid_BL=valid_BL)


@each_pair
def test_example_targets_ask_for_every_class(config, embedding):
    head, _ = built(config, embedding)
    ids_BL = torch.arange(VOCAB)[:, None].expand(-1, 2)
    target = head.example_target(ids_BL)
    assert head.loss(torch.randn(VOCAB, 2, DIM, dtype=torch.float64), target).isfinite()
    if config.has_probabilities and not config.over_positions:
        assert set(target.flatten().tolist()) == set(range(head.classes))


def test_span_scores_positions():
    head, _ = built(SpanHead.Config(), TOKEN)
    h_BLD = torch.randn(3, 5, DIM, dtype=torch.float64)
    target = torch.tensor([[0, 2], [1, 4], [3, 3]])
    log_p_BL2 = head.log_probs(h_BLD)
    torch.testing.assert_close(log_p_BL2.exp().sum(1), torch.ones(3, 2, dtype=torch.float64))
    there = -torch.stack([log_p_BL2[b, target[b, k], k] for b in range(3) for k in range(2)]).mean()
    torch.testing.assert_close(head.loss(h_BLD, target), there)
    with pytest.raises(ValueError, match="target: 6 is outside the 5 classes"):
        head.loss(h_BLD, target + 2)


@pytest.mark.parametrize("head", [TiedHead.Config(), MaskedLM.Config(), MixtureOfSoftmaxes.Config(tied=True)])
def test_no_matrix_to_tie_is_refused(head: Head.Config):
    below = AdaptiveEmbedding.Config(cutoffs=(9,))
    with pytest.raises(ValueError, match=f"head: {head.tag} shares .*adaptive embedding .*use head adaptive_softmax"):
        head.params(VOCAB, DIM, below)
    with pytest.raises(ValueError, match=f"head: {head.tag} shares"):
        head.build(VOCAB, DIM, below.build(VOCAB, DIM))


def test_a_mixture_does_not_tie_to_a_projected_matrix():
    with pytest.raises(ValueError, match=r"mixture shares .*factorised embedding.*set head\.tied=false"):
        MixtureOfSoftmaxes.Config(tied=True).params(VOCAB, DIM, NARROW)


def test_all_kinds_are_tried():
    tried = {config.tag for config, _ in PAIRS} | {AdaptiveSoftmax.Config.tag}
    ours = {tag for tag, kind in Head.Config.registry.items() if kind.__module__.startswith("sublayer.")}
    assert tried == ours
