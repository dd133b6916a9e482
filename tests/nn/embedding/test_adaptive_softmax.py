"""The adaptive softmax against the obvious dense one, and against PyTorch's."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.embedding import AdaptiveEmbedding, AdaptiveSoftmax, TokenEmbedding, cross_entropy

VOCAB, DIM, CUTOFFS = 37, 16, (7, 20)
STARTS = (0, 7, 20, 37)


def randomised(module: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(1)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return module.double()


def built(config: AdaptiveSoftmax.Config, width: int | None = None) -> tuple[AdaptiveSoftmax, AdaptiveEmbedding]:
    embedding = AdaptiveEmbedding.Config(cutoffs=CUTOFFS, factor=config.factor, width=width).build(VOCAB, DIM)
    embedding = randomised(embedding)
    return randomised(config.build(VOCAB, DIM, embedding)), embedding


def dense(head: AdaptiveSoftmax, embedding: AdaptiveEmbedding, h_ND: Tensor) -> Tensor:
    """Log-probabilities word by word, with nothing clever."""
    config, words = head.config, embedding.words if head.config.tied else head.words
    own = list(head.projections)
    shared = list(embedding.projections)
    if config.factor == 1:
        shared = shared * 3
    if not config.tied:
        maps = [None, *head.projections] if len(head.projections) else [None] * 3
    else:
        maps = {"own": own, "shared": shared, "tails": own[:1] + shared[1:]}[config.projection] or [None] * 3
    table = [word for matrix in words for word in matrix]
    log_p: list[Tensor] = []
    for c in range(3):
        seen = h_ND if maps[c] is None else h_ND @ maps[c]
        rows = torch.stack([*table[STARTS[c] : STARTS[c + 1]], *(head.tails if c == 0 else [])])
        scores = seen @ rows.T
        if head.bias_V is not None:
            bias = head.bias_V[STARTS[c] : STARTS[c + 1]]
            scores = scores + (torch.cat([bias, head.tails_bias]) if c == 0 else bias)
        log_p.append(scores - scores.exp().sum(-1, keepdim=True).log())
    first, tails = log_p[0][:, :7], log_p[0][:, 7:]
    return torch.cat([first, tails[:, :1] + log_p[1], tails[:, 1:] + log_p[2]], dim=-1)


VARIANTS = [
    ({"factor": 4}, None),
    ({"factor": 2, "bias": False}, None),
    ({"factor": 1}, None),
    ({"factor": 1, "tied": True}, None),
    ({"factor": 1, "tied": True, "projection": "own"}, 6),
    ({"factor": 1, "tied": True, "projection": "tails"}, 6),
    ({"factor": 2, "tied": True}, None),
    ({"factor": 2, "tied": True, "bias": False}, 8),
    ({"factor": 2, "tied": True, "projection": "own"}, 8),
    ({"factor": 2, "tied": True, "projection": "tails"}, None),
]
each_variant = pytest.mark.parametrize(("fields", "width"), VARIANTS)


@each_variant
def test_closed_form_is_the_built_count(fields, width):
    config = AdaptiveSoftmax.Config(cutoffs=CUTOFFS, **fields)
    embedding = AdaptiveEmbedding.Config(cutoffs=CUTOFFS, factor=config.factor, width=width)
    with torch.device("meta"):
        head = config.build(VOCAB, DIM, embedding.build(VOCAB, DIM))
    assert config.params(VOCAB, DIM, embedding) == sum(weight.numel() for weight in head.parameters())


@each_variant
def test_log_probs_are_the_dense_ones_and_sum_to_one(fields, width):
    head, embedding = built(AdaptiveSoftmax.Config(cutoffs=CUTOFFS, **fields), width)
    h_BLD = torch.randn(2, 5, DIM, dtype=torch.float64)
    log_p_BLV = head.log_probs(h_BLD)
    torch.testing.assert_close(log_p_BLV.flatten(0, 1), dense(head, embedding, h_BLD.flatten(0, 1)))
    torch.testing.assert_close(log_p_BLV.exp().sum(-1), torch.ones(2, 5, dtype=torch.float64))
    torch.testing.assert_close(head(h_BLD), log_p_BLV)


@each_variant
@pytest.mark.parametrize("large", [400, 2**24])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_is_the_dense_one_in_value_and_gradient(monkeypatch, fields, width, large, smoothing, weighted):
    monkeypatch.setattr(cross_entropy, "LARGE", large)
    head, embedding = built(AdaptiveSoftmax.Config(cutoffs=CUTOFFS, **fields), width)
    h_BLD = torch.randn(2, 23, DIM, dtype=torch.float64, requires_grad=True)
    target = torch.randint(VOCAB, (2, 23))
    target[0, ::4] = -100
    weights = torch.rand(2, 23, dtype=torch.float64) if weighted else None
    leaves = [h_BLD, *head.parameters(), *(embedding.parameters() if fields.get("tied") else [])]
    here = head.loss(h_BLD, target, weights, smoothing)
    loss_N = F.cross_entropy(
        dense(head, embedding, h_BLD.flatten(0, 1)), target.flatten(), reduction="none", label_smoothing=smoothing
    )
    share_N = (target.flatten() != -100) * (1.0 if weights is None else weights.flatten())
    there = (loss_N * share_N).sum() / share_N.sum()
    torch.testing.assert_close(here, there)
    ours = torch.autograd.grad(here, leaves, allow_unused=True)
    theirs = torch.autograd.grad(there, leaves, allow_unused=True)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine is None) == (other is None)  # the embedding's projections that are not shared
        if mine is not None:
            torch.testing.assert_close(mine, other)


def test_equals_pytorchs():
    theirs = randomised(torch.nn.AdaptiveLogSoftmaxWithLoss(DIM, VOCAB, list(CUTOFFS), div_value=4))
    config = AdaptiveSoftmax.Config(cutoffs=CUTOFFS, bias=False)
    head = config.build(VOCAB, DIM, TokenEmbedding.Config().build(VOCAB, DIM)).double()
    with torch.no_grad():
        head.words[0].copy_(theirs.head.weight[:7])
        head.tails.copy_(theirs.head.weight[7:])
        for c in (0, 1):
            head.projections[c].copy_(theirs.tail[c][0].weight.T)
            head.words[c + 1].copy_(theirs.tail[c][1].weight)
    assert config.params(VOCAB, DIM, TokenEmbedding.Config()) == sum(w.numel() for w in theirs.parameters())
    h_ND, target_N = torch.randn(40, DIM, dtype=torch.float64), torch.randint(VOCAB, (40,))
    torch.testing.assert_close(head.log_probs(h_ND), theirs.log_prob(h_ND))
    torch.testing.assert_close(head.loss(h_ND, target_N), theirs(h_ND, target_N).loss)


def test_a_tail_without_tokens_is_no_trouble():
    head, _ = built(AdaptiveSoftmax.Config(cutoffs=CUTOFFS))
    head.loss(torch.randn(1, 3, DIM, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.long)).backward()
    assert all(weight.grad is not None for weight in head.parameters())


def test_transformer_xl_base():
    """Biases of all words, and three tails with a row and a bias each; every token passes 20,000 rows."""
    fields = {"cutoffs": (19_997, 39_997, 199_997), "factor": 1}
    embedding, head = AdaptiveEmbedding.Config(**fields), AdaptiveSoftmax.Config(**fields, tied=True)
    assert embedding.params(267_735, 512) == 267_735 * 512
    assert head.params(267_735, 512, embedding) == 267_735 + 3 * 512 + 3
    assert head.flops(267_735, 512, embedding, 64) == 2 * 64 * 512 * 20_000


@pytest.mark.parametrize(
    ("vocab", "dim", "cutoffs", "factor", "width", "projection", "params"),
    [
        (267_735, 512, (59_997, 99_997), 4, None, "own", 42_162_969),
        (793_470, 256, (59_997, 99_997, 639_997), 4, None, "own", 28_141_445),
        (267_736, 64, (19_997, 39_997, 199_997), 1, 128, "tails", 34_554_715),
        (267_736, 64, (19_997, 39_997, 199_997), 2, 128, "tails", 10_335_115),
        (267_736, 128, (19_997, 39_997, 199_997), 4, 512, "tails", 18_882_227),
    ],
)
def test_sizes_of_models_trained_by_others(vocab, dim, cutoffs, factor, width, projection, params):
    """Total less decoder parameters of Transformer-XL models published with LTS (Javaheripi et al. 2022)."""
    embedding = AdaptiveEmbedding.Config(cutoffs=cutoffs, factor=factor, width=width)
    head = AdaptiveSoftmax.Config(cutoffs=cutoffs, factor=factor, tied=True, projection=projection)
    assert embedding.params(vocab, dim) + head.params(vocab, dim, embedding) == params


def test_own_projections_are_one_a_cluster_also_with_factor_1():
    """As in Transformer-XL's code, whose out_projs has one for each cluster where d_proj != d_embed."""
    config = AdaptiveSoftmax.Config(cutoffs=CUTOFFS, factor=1, tied=True, projection="own")
    head, embedding = built(config, width=6)
    assert [tuple(weight.shape) for weight in head.projections] == [(DIM, 6)] * 3
    assert [tuple(weight.shape) for weight in embedding.projections] == [(DIM, 6)]
    assert not len(built(config)[0].projections)


def test_a_checkpoint_with_one_projection_for_all_clusters_loads():
    config = AdaptiveSoftmax.Config(cutoffs=CUTOFFS, factor=1, tied=True, projection="own")
    head, _ = built(config, width=6)
    old = {name: weight for name, weight in head.state_dict().items() if name not in ("projections.1", "projections.2")}
    head.load_state_dict(old)
    assert all(torch.equal(weight, old["projections.0"]) for weight in head.projections)
    model = torch.nn.ModuleDict({"head": head})
    model.load_state_dict({f"head.{name}": weight for name, weight in old.items()})


def test_impossible_ties_are_refused():
    head = AdaptiveSoftmax.Config(cutoffs=CUTOFFS, tied=True)
    with pytest.raises(ValueError, match=r"adaptive embedding only, got token; set head\.tied=false"):
        head.build(VOCAB, DIM, TokenEmbedding.Config().build(VOCAB, DIM))
    for fields in ({"cutoffs": (8, 20)}, {"cutoffs": CUTOFFS, "factor": 2}):
        with pytest.raises(ValueError, match=r"cutoffs \(7, 20\) and factor 4 .*make them equal"):
            head.params(VOCAB, DIM, AdaptiveEmbedding.Config(**fields))
    with pytest.raises(ValueError, match=r"head\.cutoffs: .*keep cutoffs below 15"):
        AdaptiveSoftmax.Config(cutoffs=CUTOFFS).params(15, DIM, TokenEmbedding.Config())
