"""Distance-aware attention: positive scores scaled by a learned, bounded function of the distance."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.position.base import Position, distances
from sublayer.nn.scene import Scene


class Distance(Position):
    """softmax(ReLU(QKᵀ)/√K · f(α|i−j|)), f(x) = (1 + e^β)/(1 + e^(β−x)) (DA-Transformer, Wu et al. 2021, eq. 3–5).

    f(0) = 1; f rises for α > 0, falls for α < 0, and is bounded by 1 + e^β. α and β are learned per head.
    """

    class Config(Position.Config, tag="distance"):
        def build_layer(self, dim: int, heads: int, head_dim: int, shared: Position | None) -> Position:
            return Distance(heads)

        def layer_params(self, dim: int, heads: int, head_dim: int) -> int:
            return 2 * heads

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.alpha_H = nn.Parameter(torch.empty(heads).normal_(std=0.1))
        self.beta_H = nn.Parameter(torch.ones(heads))

    def weigh(self, scores_BHLM: Float[Tensor, "B H L M"], scene: Scene, memory: int) -> Float[Tensor, "B H L M"]:
        apart_B1LM = distances(scene, memory)[:, None].abs().to(scores_BHLM.dtype)
        return scores_BHLM.relu() * self.factor(apart_B1LM)

    def factor(self, apart_B1LM: Float[Tensor, "B 1 L M"]) -> Float[Tensor, "B H L M"]:
        """(1 + e^β)·sigmoid(αx − β) equals f, and does not overflow."""
        alpha_H11, beta_H11 = self.alpha_H[:, None, None], self.beta_H[:, None, None]
        return (1 + beta_H11.exp()) * torch.sigmoid(alpha_H11 * apart_B1LM - beta_H11)
