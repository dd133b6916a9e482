"""The loss of each token: what `log_probs` says of it, however many scores are formed at once."""

import pytest
import torch

from sublayer.nn.embedding import (
    AdaptiveEmbedding,
    AdaptiveSoftmax,
    FactorisedEmbedding,
    LinearHead,
    MixtureOfSoftmaxes,
    TiedHead,
    TokenEmbedding,
    cross_entropy,
)

VOCAB, DIM, CUTOFFS = 37, 16, (7, 20)
TOKEN, ADAPTIVE = TokenEmbedding.Config(), AdaptiveEmbedding.Config(cutoffs=CUTOFFS, factor=2)
PAIRS = [
    (LinearHead.Config(bias=True), TOKEN),
    (TiedHead.Config(bias=True), FactorisedEmbedding.Config(rank=5)),
    (MixtureOfSoftmaxes.Config(components=3), TOKEN),
    (AdaptiveSoftmax.Config(cutoffs=CUTOFFS, factor=4), TOKEN),
    (AdaptiveSoftmax.Config(cutoffs=CUTOFFS, factor=2, bias=False), TOKEN),
    (AdaptiveSoftmax.Config(cutoffs=CUTOFFS, factor=2, tied=True, projection="tails"), ADAPTIVE),
]


def built(config, embedding):
    torch.manual_seed(0)
    below = embedding.build(VOCAB, DIM)
    head = config.build(VOCAB, DIM, below)
    for weight in (*below.parameters(), *head.parameters()):
        torch.nn.init.normal_(weight, std=0.5)
    below.double()
    return head.double().eval()


@pytest.mark.parametrize(("config", "embedding"), PAIRS, ids=lambda config: config.tag)
@pytest.mark.parametrize("large", [1, 100, 2**24])
def test_nats_are_log_probs_of_the_targets(monkeypatch, config, embedding, large):
    monkeypatch.setattr(cross_entropy, "LARGE", large)
    head = built(config, embedding)
    h_BLD, target_BL = torch.randn(3, 7, DIM, dtype=torch.float64), torch.randint(VOCAB, (3, 7))
    there_BL = -head.log_probs(h_BLD).gather(-1, target_BL[..., None])[..., 0]
    torch.testing.assert_close(head.nats(h_BLD, target_BL), there_BL)
    target_BL[1, 2:] = -100
    torch.testing.assert_close(head.nats(h_BLD, target_BL), there_BL * (target_BL != -100))
    torch.testing.assert_close(
        head.nats(h_BLD, target_BL).sum() / (target_BL != -100).sum(), head.loss(h_BLD, target_BL)
    )


@pytest.mark.parametrize(("config", "embedding"), PAIRS, ids=lambda config: config.tag)
def test_a_target_outside_the_classes(config, embedding):
    with pytest.raises(ValueError, match="target: 37 is outside the 37 classes"):
        built(config, embedding).nats(torch.randn(1, 3, DIM, dtype=torch.float64), torch.tensor([[0, 37, 8]]))


def test_low_precision_gives_high():
    head = built(*PAIRS[0]).bfloat16()
    h_BLD, target_BL = torch.randn(1, 3, DIM, dtype=torch.bfloat16), torch.tensor([[0, 36, 8]])
    assert head.nats(h_BLD, target_BL).dtype == torch.float32
