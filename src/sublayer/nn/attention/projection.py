"""Queries, keys and values of one pass, computed on demand: what a memory works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from sublayer.nn import normed_linear
from sublayer.nn.attention.heads import split_heads
from sublayer.nn.scene import Scene

if TYPE_CHECKING:
    from sublayer.nn.attention.multihead import MultiHead
    from sublayer.nn.attention.pattern import Pattern

KeysValues = tuple[Float[Tensor, "B G M K"], Float[Tensor, "B G M K"]]


class Projection:
    """W norm(x), by head. All three come from one product, unless a memory projects its stored inputs with the
    segment's: then queries come from their own rows of the matrix, for new tokens only."""

    def __init__(self, part: MultiHead, norm: nn.Module | None, x_BLD: Float[Tensor, "B L D"], scene: Scene) -> None:
        self.part, self.norm, self.x_BLD, self.scene = part, norm, x_BLD, scene
        self._q_BHLK: Tensor | None = None

    @property
    def reach(self) -> int | None:
        """Number of earlier tokens the attention may look at; None for all."""
        return self.part.config.reach

    @property
    def outlasting(self) -> Pattern.Config | None:
        """The pattern, if it lets later queries see some tokens however far back, of those that a memory stores."""
        return self.part.config.pattern if self.part.config.outlasts else None

    def queries(self) -> Float[Tensor, "B H L K"]:
        """Of the segment, before the position acts on them."""
        if self._q_BHLK is None:
            weight, bias = self._rows(slice(None, self._width))
            self._q_BHLK = split_heads(F.linear(self._normed(self.x_BLD), weight, bias), self.part.heads)
        return self._q_BHLK

    def own(self) -> KeysValues:
        """Of the segment, keys with their position applied."""
        part = self.part
        qkv_BLZ = self._fused() if self.norm is not None else part.qkv(self.x_BLD)
        size = part.groups * part.head_dim
        q_BLZ, k_BLZ, v_BLZ = qkv_BLZ.split([self._width, size, size], dim=-1)
        self._q_BHLK = split_heads(q_BLZ, part.heads)
        k_BGLK, v_BGLK = split_heads(k_BLZ, part.groups), split_heads(v_BLZ, part.groups)
        return part.position.key(k_BGLK, self.scene, 0), v_BGLK

    def of(self, x_BMD: Float[Tensor, "B M D"], scene: Scene, memory: int) -> KeysValues:
        """Of what the sublayer receives: `memory` stored inputs, then the segment's; keys with the positions that
        `scene` gives them."""
        weight, bias = self._rows(slice(self._width, None))
        k_BMZ, v_BMZ = F.linear(self._normed(x_BMD), weight, bias).chunk(2, dim=-1)
        k_BGMK, v_BGMK = split_heads(k_BMZ, self.part.groups), split_heads(v_BMZ, self.part.groups)
        return self.part.position.key(k_BGMK, scene, memory), v_BGMK

    def scores(self, k_BGMK: Float[Tensor, "B G M K"]) -> Float[Tensor, "B H L M"]:
        """q kᵀ/√K: what queries and keys alone decide, both with their position applied."""
        q_BHLK = self.part.position.query(self.queries(), self.scene)
        k_BHMK = k_BGMK.repeat_interleave(self.part.heads // self.part.groups, dim=1)
        return (q_BHLK * q_BHLK.shape[-1] ** -0.5) @ k_BHMK.transpose(-1, -2)

    def read(self, x_BMD: Float[Tensor, "B M D"], real_BM: Bool[Tensor, "B M"] | None) -> Float[Tensor, "B H L K"]:
        """Attention by content alone on other inputs, of which `real_BM` are there; gradients reach these inputs."""
        weight, bias = (None if one is None else one.detach() for one in self._rows(slice(self._width, None)))
        assert weight is not None
        if self.norm is not None:
            fixed = {name: one.detach() for name, one in self.norm.named_parameters()}
            x_BMD = functional_call(self.norm, fixed, (x_BMD,))
        k_BMZ, v_BMZ = F.linear(x_BMD, weight, bias).chunk(2, dim=-1)
        k_BGMK, v_BGMK = split_heads(k_BMZ, self.part.groups), split_heads(v_BMZ, self.part.groups)
        mask = None if real_BM is None else real_BM[:, None, None]
        grouped = self.part.groups != self.part.heads
        return F.scaled_dot_product_attention(self.queries().detach(), k_BGMK, v_BGMK, mask, enable_gqa=grouped)

    def normed(self) -> Float[Tensor, "B L D"]:
        """What the segment's are projected from."""
        return self._normed(self.x_BLD)

    def table(self, distances: int) -> Tensor | None:
        """The position's projection of distances 0 … distances − 1; None if it has no such table."""
        return self.part.position.table(distances)

    @property
    def _width(self) -> int:
        return self.part.heads * self.part.head_dim

    def _rows(self, rows: slice) -> tuple[Tensor, Tensor | None]:
        bias = self.part.qkv.bias
        return self.part.qkv.weight[rows], None if bias is None else bias[rows]

    def _normed(self, x_BMD: Tensor) -> Tensor:
        return x_BMD if self.norm is None else self.norm(x_BMD)

    def _fused(self) -> Tensor:
        assert self.norm is not None
        if normed_linear.fuses(self.norm, self.part.qkv, self.x_BLD):
            assert isinstance(self.norm, nn.LayerNorm)
            return normed_linear.normed_linear(self.norm, self.part.qkv, self.x_BLD)
        return self.part.qkv(self.norm(self.x_BLD))


def empty(part: MultiHead, norm: nn.Module, scene: Scene) -> Projection:
    """Of a pass without new tokens, for freezing."""
    weight = part.qkv.weight
    return Projection(part, norm, torch.empty(0, 0, weight.shape[1], device=weight.device, dtype=weight.dtype), scene)
