"""A position bias: a penalty on the logarithm of distance, one learned slope a head (after Chi et al. 2022, KERPLE)."""

import torch
from torch import nn
from torch.nn import functional as F

from sublayer.nn.position import Position
from sublayer.nn.position.base import distances


class LogBias(Position):
    class Config(Position.Config, tag="log_bias"):
        def build_layer(self, dim, heads, head_dim, shared):
            return LogBias(heads)

        def layer_params(self, dim, heads, head_dim):
            return heads

    def __init__(self, heads):
        super().__init__()
        self.slope_H = nn.Parameter(torch.ones(heads))

    def bias(self, q_BHLK, scene, memory, scale, table):
        apart_B1LM = distances(scene, memory).abs()[:, None].to(q_BHLK.dtype)
        return -F.softplus(self.slope_H)[:, None, None] * apart_B1LM.log1p()
