"""Ids to vectors: closed forms, lookups against the obvious, and what is refused."""

import math

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from sublayer.nn.config import ConfigError
from sublayer.nn.embedding import AdaptiveEmbedding, Embedding, FactorisedEmbedding, TokenEmbedding
from sublayer.nn.residual.norm import LayerNorm, RMSNorm

VOCAB, DIM = 37, 16
KINDS = [
    TokenEmbedding.Config(),
    TokenEmbedding.Config(types=3, norm=LayerNorm.Config(), dropout=0.1, scale=True),
    FactorisedEmbedding.Config(rank=5, norm=RMSNorm.Config()),
    FactorisedEmbedding.Config(rank=DIM),
    AdaptiveEmbedding.Config(cutoffs=(7, 20)),
    AdaptiveEmbedding.Config(cutoffs=(7, 20), factor=2, scale=True),
    AdaptiveEmbedding.Config(cutoffs=(7,), factor=2, width=6),
    AdaptiveEmbedding.Config(cutoffs=(7, 20), factor=1),
    AdaptiveEmbedding.Config(cutoffs=(7, 20), factor=1, width=6),
]
each_kind = pytest.mark.parametrize("config", KINDS, ids=lambda config: config.tag)


@each_kind
def test_closed_form_is_the_built_count(config: Embedding.Config):
    with torch.device("meta"):
        module = config.build(VOCAB, DIM)
    assert config.params(VOCAB, DIM) == sum(weight.numel() for weight in module.parameters())


@each_kind
def test_round_trip(config: Embedding.Config):
    assert Embedding.Config.from_json(config.to_json()) == config
    assert Embedding.Config.from_toml(config.to_toml()) == config


@each_kind
def test_flops_are_the_executed_matmuls(config: Embedding.Config):
    with torch.device("meta"):
        module, ids = config.build(VOCAB, DIM), torch.zeros(1, 11, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            module.read(ids)
    assert config.flops(VOCAB, DIM, 11) == counter.get_total_flops()


@each_kind
def test_every_id_is_read_and_every_parameter_learns(config: Embedding.Config):
    module = config.build(VOCAB, DIM).eval()
    x_BLD = module.read(torch.arange(VOCAB)[None])
    if config.types:
        x_BLD = x_BLD + module.read_types(torch.arange(VOCAB)[None] % config.types)
    assert x_BLD.shape == (1, VOCAB, DIM)
    (module.norm_and_drop(x_BLD) * torch.randn(DIM)).pow(2).sum().backward()
    for name, weight in module.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.any(), name


@each_kind
@pytest.mark.parametrize("bad", [VOCAB, -1, 10**6])
def test_an_id_outside_the_vocabulary_is_named(config: Embedding.Config, bad: int):
    ids = torch.zeros(2, 3, dtype=torch.long)
    ids[1, 2] = bad
    with pytest.raises(ValueError, match=f"token {bad} is outside the vocabulary of {VOCAB}; .*set vocab"):
        config.build(VOCAB, DIM).read(ids)


@each_kind
def test_narrow_integers_are_read(config: Embedding.Config):
    module, ids = config.build(VOCAB, DIM), torch.randint(VOCAB, (2, 5))
    torch.testing.assert_close(module.read(ids.to(torch.uint8)), module.read(ids))


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_adaptive_reads_each_cluster_through_its_own_projection(factor: int):
    config = AdaptiveEmbedding.Config(cutoffs=(7, 20), factor=factor, width=16, scale=True)
    module = config.build(VOCAB, 12).double()
    ids = torch.randint(VOCAB, (3, 11))
    words = list(module.words) if factor > 1 else list(module.words[0].split([7, 13, 17]))
    maps = list(module.projections) if factor > 1 else list(module.projections) * 3
    whole_VD = torch.cat([word @ map.T for word, map in zip(words, maps, strict=True)])
    torch.testing.assert_close(module.read(ids), math.sqrt(12) * whole_VD[ids])


def test_factor_one_at_the_models_width_has_no_projections():
    config = AdaptiveEmbedding.Config(cutoffs=(7, 20), factor=1)
    assert config.params(VOCAB, DIM) == VOCAB * DIM
    assert config.flops(VOCAB, DIM, 5) == 0


def test_opt_350m_is_factorised():
    assert FactorisedEmbedding.Config(rank=512).params(50_272, 1024) == 50_272 * 512 + 512 * 1024


def test_types_and_norm_come_after_the_lookup():
    config = TokenEmbedding.Config(types=2, norm=LayerNorm.Config(eps=1e-12))
    module = config.build(VOCAB, DIM)
    ids, types = torch.randint(VOCAB, (2, 5)), torch.randint(2, (2, 5))
    x_BLD = module.norm_and_drop(module.read(ids) + module.read_types(types))
    expected = F.layer_norm(module.weight_VD[ids] + module.types[types], (DIM,), eps=1e-12)
    torch.testing.assert_close(x_BLD, expected)


def test_types_are_refused_where_there_are_none_or_too_few():
    ones = torch.ones(1, 2, dtype=torch.long)
    with pytest.raises(ValueError, match=r"no token types; set embedding\.types"):
        TokenEmbedding.Config().build(VOCAB, DIM).read_types(ones)
    with pytest.raises(ValueError, match=r"type 1 is outside the 1 .*set embedding\.types=2"):
        TokenEmbedding.Config(types=1).build(VOCAB, DIM).read_types(ones)


@pytest.mark.parametrize("cutoffs", [(), (0, 5), (5, 5), (9, 5), (-3, 5)])
def test_cutoffs_must_rise(cutoffs: tuple[int, ...]):
    with pytest.raises(ConfigError, match=r"cutoffs: .*rising"):
        AdaptiveEmbedding.Config(cutoffs=cutoffs)


def test_clusters_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=rf"embedding\.cutoffs: .*{VOCAB}; keep cutoffs below {VOCAB}"):
        AdaptiveEmbedding.Config(cutoffs=(7, VOCAB)).build(VOCAB, DIM)
    with pytest.raises(ValueError, match=r"embedding\.factor: .*smaller factor"):
        AdaptiveEmbedding.Config(cutoffs=(7, 20), factor=8).params(VOCAB, DIM)
