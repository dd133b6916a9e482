"""Routing attention: a query sees tokens of its cluster, and the clusters follow what the model reads."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention import routing_reference as reference
from sublayer.nn.attention.balanced import balanced
from sublayer.nn.attention.bucketed import BUCKETS
from sublayer.nn.attention.buckets import Grid, Hashed
from sublayer.nn.attention.centroids import Centroids
from sublayer.nn.attention.heads import Looking, join_heads, split_heads
from sublayer.nn.attention.kernel.softmax import DENSE
from sublayer.nn.attention.lookback import enter, look_back, pairs
from sublayer.nn.attention.tiled import Tiles
from sublayer.nn.linear import linear
from sublayer.nn.part import Slot, Work
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene


class Routing(Looking):
    """softmax(q kᵀ/√K) v over tokens of one cluster (Roy et al. 2021, section 4.1). Queries and keys are normalised as
    by a LayerNorm without weights, and belong to the centroid that is nearest; `Centroids` tells how these move.

    Looking both ways is the paper's form: each centroid takes the `window` queries and the `window` keys nearest to it,
    which meet. A token that several centroids take has the mean of what it gets there, one that none takes has zeros.

    Looking back deviates from the paper, where centroids choose among all tokens, so that later tokens decide whether
    earlier ones are chosen. Here each token by itself belongs to the nearest centroid, and sees the last `window`
    tokens before it in that cluster. So the result does not depend on later tokens, on where segments are cut, or on
    padding, and the state is the last tokens of every cluster. Clusters differ in size, but no query sees more than
    `window` tokens.

    Looking back, queries are their own keys, as the paper recommends. A token sees itself only if it is the first of
    its cluster, since its own score would be the highest of all; the authors' code lets it. That code does not divide
    the scores of normalised vectors by √K, either. No position acts on routed heads; in that code one does.
    """

    class Config(Looking.Config, tag="routing"):
        clusters: Annotated[int, Field(ge=1, le=4096)] = 16
        """Centroids of each head. In the paper, clusters times window is the length of the text."""
        window: Annotated[int, Field(ge=1, le=2**20)] = 256
        """Tokens of its cluster that a query sees."""
        decay: Annotated[float, Field(ge=0, lt=1)] = 0.999
        """How much of a centroid is left after a step of training; less for short trainings."""

        @model_validator(mode="after")
        def _possible(self) -> Routing.Config:
            if self.kv_heads not in (None, self.heads):
                raise ValueError(
                    f"kv_heads={self.kv_heads}: queries and keys of a head share its centroids, so there are as many "
                    "of each; leave it out"
                )
            return self

        @property
        def bounded(self) -> bool:
            return True

        @property
        def grid(self) -> Grid:
            """Each token is a chunk."""
            return Grid(self.clusters, 1, causal=True, reach=self.window)

        def check(self, slot: Slot) -> None:
            if self.sizes(slot.dim)[2] < 2:
                raise ValueError(
                    "heads of 1 number: normalised, all queries are 0; use fewer heads, or set head_dim to 2 or more"
                )

        def check_length(self, length: int) -> None:
            for name, value in (("window", self.window), ("clusters", self.clusters)):
                if value > length:
                    raise ValueError(
                        f"{name}={value} is more than the {length} tokens of a text; use at most {length}, or longer "
                        "texts"
                    )

        @property
        def _projections(self) -> int:
            """Values, keys and queries, which looking back are one."""
            return 3 if self.both_ways else 2

        def params(self, slot: Slot) -> int:
            (H, _, K), D = self.sizes(slot.dim), slot.dim
            wide = self._projections * H * K
            return D * wide + H * K * D + ((wide + D) if self.bias else 0)

        def flops(self, slot: Slot, work: Work) -> int:
            (H, _, K), D, L = self.sizes(slot.dim), slot.dim, work.length
            routed = self._projections - 1  # vectors of a token that are compared with the centroids
            own = 2 * L * D * (self._projections + 1) * H * K + 2 * routed * H * L * K * self.clusters
            return own + 2 * 2 * H * K * self._pairs(L, work.memory)

        def _pairs(self, length: int, memory: int) -> int:
            if self.both_ways:
                return self.clusters * min(self.window, length) ** 2
            stored = Hashed.stored(memory, 1, self.grid)
            return pairs(length, stored, 1, self.grid, Tiles.after(stored, length, self.grid).pairs)

        def state_size(self, slot: Slot, work: Work) -> int:
            if self.both_ways:
                return 0
            (H, _, K), grid = self.sizes(slot.dim), self.grid
            stored = Hashed.stored(Hashed.stored(work.memory, 1, grid) + work.length, 1, grid)
            # Keys, values and codes; slots, the spare one and counts.
            return H * (stored * (2 * K + 1) + self.clusters * (grid.seen + 1) + 1)

    masked = None
    position_tag = "none"

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config, self.grid = config, config.grid
        self.heads, _, self.head_dim = config.sizes(slot.dim)
        self.position = NoPosition()
        wide = self.heads * self.head_dim
        self.project = linear(slot.dim, config._projections * wide, config.bias)
        self.output = linear(wide, slot.dim, config.bias)
        self.centroids = Centroids(self.heads, config.clusters, self.head_dim, config.decay)

    @property
    def twin(self) -> str:
        return "nn/attention/routing_reference.py"

    def path(self, mode: paths.Mode) -> paths.Choice:
        if self.config.both_ways:
            return paths.report(DENSE, self, mode, plain="PyTorch's attention")
        return paths.report(BUCKETS, self, mode)

    def score_weights(self) -> dict[str, slice]:
        return {"project.weight": slice(0, (self.config._projections - 1) * self.heads * self.head_dim)}

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Hashed | None = None
    ) -> tuple[Float[Tensor, "B L D"], Hashed | None]:
        *qk, v_BLZ = self.project(x_BLD).chunk(self.config._projections, dim=-1)
        q_BHLK, k_BHLK, v_BHLK = (split_heads(x, self.heads) for x in (qk[0], qk[-1], v_BLZ))
        y_BHLK, after = self.attend(q_BHLK, k_BHLK, v_BHLK, scene, state)
        return self.output(join_heads(y_BHLK)), after

    def attend(
        self,
        q_BHLK: Float[Tensor, "B H L K"],
        k_BHLK: Float[Tensor, "B H L K"],
        v_BHLK: Float[Tensor, "B H L K"],
        scene: Scene,
        state: Hashed | None = None,
    ) -> tuple[Float[Tensor, "B H L K"], Hashed | None]:
        """What stands between the projections. Looking back, queries are the keys."""
        if self.config.both_ways:
            return self._both_ways(normalised(q_BHLK), normalised(k_BHLK), v_BHLK, scene), None
        return self._back(normalised(q_BHLK), v_BHLK, scene, state)

    @property
    def _dropout(self) -> float:
        return self.config.dropout if self.training else 0.0

    def _back(self, q_BHLK: Tensor, v_BHLK: Tensor, scene: Scene, state: Hashed | None) -> tuple[Tensor, Hashed]:
        _, cluster_BHL = self._near(q_BHLK, scene)
        k_BHLK = q_BHLK * self.head_dim**-0.5
        past = Hashed.empty(k_BHLK, v_BHLK, 1, self.grid) if state is None else state
        code_BH1L, after = enter(past, k_BHLK, v_BHLK, cluster_BHL[:, :, None], scene.valid_BL, self.grid)
        if paths.slow():
            return reference.back(q_BHLK, k_BHLK, v_BHLK, cluster_BHL, scene.valid_BL, past, self.grid), after
        return look_back(q_BHLK, k_BHLK, v_BHLK, code_BH1L, past, self.grid, self._dropout), after

    def _both_ways(self, q_BHLK: Tensor, k_BHLK: Tensor, v_BHLK: Tensor, scene: Scene) -> Tensor:
        (to_query_BHCL, _), (to_key_BHCL, _) = self._near(q_BHLK, scene), self._near(k_BHLK, scene)
        known = q_BHLK, k_BHLK, v_BHLK, to_query_BHCL, to_key_BHCL
        if paths.slow():
            return reference.both_ways(*known, scene.valid_BL, self.config.window)
        return balanced(*known, scene, self.config.window, self._dropout)

    def _near(self, x_BHLK: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
        """How near each token is to each centroid, and to which it is nearest; in training the centroids collect it."""
        near_BHCL = self.centroids(x_BHLK)
        nearest_BHL, cluster_BHL = near_BHCL.max(2)
        self.centroids.collect(x_BHLK, nearest_BHL, cluster_BHL, scene.valid_BL)
        return near_BHCL, cluster_BHL


def normalised(x_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L K"]:
    """Of length √K, without their mean. In float32 at least: in half precision squares overflow."""
    wide_BHLK = x_BHLK.to(torch.promote_types(x_BHLK.dtype, torch.float32))
    return F.layer_norm(wide_BHLK, wide_BHLK.shape[-1:]).to(x_BHLK.dtype)
