"""Proxies counted from a config, without building the model."""

from __future__ import annotations

from sublayer.nas.proxies.base import proxy
from sublayer.nn.model import Model

LTS = "Javaheripi et al. 2022, LiteTransformerSearch, arXiv:2203.02094"


@proxy("decoder_params", needs="config", cite=LTS)
def decoder_params(config: Model.Config) -> float:
    """Parameters of the stack and its final norm, without embedding, positions and head."""
    return config.cost().decoder_params


@proxy("total_params", needs="config", cite=LTS)
def total_params(config: Model.Config) -> float:
    """All parameters, tied ones once."""
    return config.cost().params


@proxy("flops", needs="config", cite=LTS)
def flops(config: Model.Config) -> float:
    """Matmul FLOPs of one segment of 64 tokens after the remembered ones."""
    return config.cost().flops.total
