"""ETC's attention: a few global tokens beside a long text, each with a softmax of its own."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention import etc_reference
from sublayer.nn.attention.etc_inputs import Inputs
from sublayer.nn.attention.heads import Heads, join_heads, split_heads
from sublayer.nn.attention.pattern import Global, Pattern, Union, Window
from sublayer.nn.config import Count
from sublayer.nn.linear import DEVIATION, linear
from sublayer.nn.part import Slot, Work
from sublayer.nn.scene import Scene

Piece = Literal["l2l", "l2g", "g2l", "g2g"]
"""From queries on long or global tokens to keys of long or global tokens."""
MAPS: dict[int, dict[Piece, int]] = {
    1: {"l2l": 0, "l2g": 0, "g2l": 0, "g2g": 0},
    2: {"l2l": 0, "l2g": 0, "g2l": 1, "g2g": 1},
    4: {"l2l": 0, "l2g": 1, "g2l": 2, "g2g": 3},
}
"""Number of projections to keys and values → which of them each piece has."""
LEAST = 16
"""Queries of a tile at least."""


class EtcAttention(Heads):
    """z_i = Σ_j softmax_j(q_i·(k_j + a_ij)/√K) v_j with a trained vector a for each label (Ainslie et al. 2020,
    section 3). Long tokens have one softmax over the long tokens within `radius` and all global ones, global tokens
    another over all tokens. Labels: the distance of two long or of two global tokens, clipped; and, between a long and
    a global token, whether this one stands for the segment of that.

    The two inputs are one sequence, since a part has one: its first tokens are the global ones. The stack `etc` puts
    them in front, one for each segment, and takes them away at the end; in another stack the first `globals` tokens of
    the text are global, and stand for no segment.

    A text is computed in tiles, each with the keys within reach of it, so that work and memory grow linearly with it.
    Label vectors are on keys only, as in the paper, and belong to one layer.
    """

    class Config(Heads.Config, tag="etc"):
        radius: Count = 84
        """Long tokens that a long token sees on either side."""
        clip: Count = 12
        """Distances beyond this share one label."""
        globals: Count = 1
        """Global tokens, at the beginning of the text, in a stack that puts none in front."""
        projections: Literal[1, 2, 4] = 1
        """Projections to keys and values: 1 for all; 2, one for queries on long tokens and one for those on global
        ones; 4, one for each of l2l, l2g, g2l and g2g. But for 1, queries and outputs have two each."""
        g2l: Literal["all", "own"] = "all"
        """Long tokens that a global one sees: all, or those of its segment."""

        @property
        def pattern(self) -> Pattern.Config:
            """Who sees whom in a stack that puts no global tokens in front."""
            near = Window.Config(size=self.radius + 1, look="both")
            return Union.Config(members=(near, Global.Config(first=self.globals, see_all=self.g2l == "all")))

        @property
        def patterns(self) -> tuple[Pattern.Config, ...]:
            return self.pattern.by_head(self.heads)

        @property
        def both_ways(self) -> bool:
            return True

        def turned(self, causal: bool) -> str:
            return "multihead with pattern=causal"

        @property
        def reach(self) -> int:
            return 0

        @property
        def knows_globals(self) -> bool:
            return True

        @property
        def labels(self) -> int:
            """Of one kind of query."""
            return 2 * self.clip + 1 + 2

        def params(self, slot: Slot) -> int:
            (H, G, K), maps, sides = self.sizes(slot.dim), self.projections, min(self.projections, 2)
            weights = slot.dim * (2 * sides * H + 2 * maps * G) * K
            biases = sides * (H * K + slot.dim) + 2 * maps * G * K
            return weights + (biases if self.bias else 0) + H * 2 * self.labels * K

        def flops(self, slot: Slot, work: Work) -> int:
            (H, G, K), L = self.sizes(slot.dim), work.length
            J = work.globals or min(self.globals, L)
            projections = 2 * L * slot.dim * (2 * H + 2 * G * min(self.projections, 2)) * K
            pairs = self.tile(L - J)[1] + (L - J) * J + J * L
            return projections + 2 * L * H * self.labels * K + 2 * 2 * H * K * pairs

        def tile(self, length: int) -> tuple[int, int]:
            """Queries of a tile of long tokens, and query–key pairs that are multiplied in all tiles together."""
            queries = max(1, min(length, max(self.radius, LEAST)))
            return queries, -(-length // queries) * queries * (queries + 2 * self.radius)

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config = config
        self.heads, self.groups, self.head_dim = config.sizes(slot.dim)
        D, wide = slot.dim, self.heads * self.head_dim
        sides = range(min(config.projections, 2))
        self.query = nn.ModuleList(linear(D, wide, config.bias) for _ in sides)
        self.key_value = nn.ModuleList(
            linear(D, 2 * self.groups * self.head_dim, config.bias) for _ in range(config.projections)
        )
        self.outputs = nn.ModuleList(linear(wide, D, config.bias) for _ in sides)
        self.label_HRK = nn.Parameter(torch.empty(self.heads, 2 * config.labels, self.head_dim).normal_(std=DEVIATION))
        """Of long queries, then of global ones: by distance, then of one's own global or long tokens, of the others."""

    @property
    def output_maps(self) -> list[nn.Linear]:
        return list(self.outputs)  # pyright: ignore[reportReturnType]

    @property
    def twin(self) -> str:
        return "nn/attention/etc_reference.py"

    def score_weights(self) -> dict[str, slice]:
        queries = {f"query.{n}.weight": slice(None) for n in range(len(self.query))}
        keys = {f"key_value.{n}.weight": slice(self.groups * self.head_dim) for n in range(len(self.key_value))}
        return {**queries, **keys, "label_HRK": slice(None)}

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Float[Tensor, "B L D"], None]:
        inputs = Inputs.of(x_BLD, scene, self.config.globals)
        if paths.slow():
            return inputs.put_back(*etc_reference.attend(self, inputs)), None
        sides = {"l": inputs.long_BND, "g": inputs.global_BJD}
        made: dict[tuple[int, str], tuple[Tensor, Tensor]] = {}

        def key_value(piece: Piece) -> tuple[Tensor, Tensor]:
            which = MAPS[self.config.projections][piece], piece[-1]
            if which not in made:  # pieces that share a projection share its product
                k_BMZ, v_BMZ = self.key_value[which[0]](sides[piece[-1]]).chunk(2, dim=-1)
                made[which] = self._by_head(k_BMZ), self._by_head(v_BMZ)
            return made[which]

        long_BHNK = self._long(self.queries("l", inputs), key_value("l2l"), key_value("l2g"), inputs)
        global_BHJK = self._global(self.queries("g", inputs), key_value("g2l"), key_value("g2g"), inputs)
        found = self.outputs[-1](join_heads(global_BHJK)), self.outputs[0](join_heads(long_BHNK))
        return inputs.put_back(*found), None

    def queries(self, side: Literal["l", "g"], inputs: Inputs) -> Float[Tensor, "B H X K"]:
        """Scaled by 1/√K."""
        q_BXZ = self.query[0](inputs.long_BND) if side == "l" else self.query[-1](inputs.global_BJD)
        return split_heads(q_BXZ, self.heads) * self.head_dim**-0.5

    def _by_head(self, k_BMZ: Tensor) -> Float[Tensor, "B H M K"]:
        return split_heads(k_BMZ, self.groups).repeat_interleave(self.heads // self.groups, dim=1)

    def _long(
        self, q_BHNK: Tensor, near: tuple[Tensor, Tensor], far: tuple[Tensor, Tensor], inputs: Inputs
    ) -> Float[Tensor, "B H N K"]:
        """Near keys are in tiles: those of the tile's queries, and `radius` on either side."""
        N, radius, clip = q_BHNK.shape[2], self.config.radius, self.config.clip
        if not N:
            return q_BHNK
        T, _ = self.config.tile(N)
        spare = -N % T
        labels_BHNR = q_BHNK @ self.label_HRK[:, : self.config.labels].transpose(1, 2)
        tiled = (F.pad(x, (0, 0, 0, spare)).unflatten(2, (-1, T)) for x in (q_BHNK, labels_BHNR))
        q_BHnTK, labels_BHnTR = tiled
        k_BHnKX, v_BHnKX = (F.pad(x, (0, 0, radius, radius + spare)).unfold(2, T + 2 * radius, T) for x in near)
        apart_TX = (
            torch.arange(T + 2 * radius, device=q_BHNK.device) - radius - torch.arange(T)[:, None].to(q_BHNK.device)
        )
        label_TX = apart_TX.clamp(-clip, clip) + clip
        near_BHnTX = q_BHnTK @ k_BHnKX + labels_BHnTR.gather(-1, label_TX.expand(*labels_BHnTR.shape[:3], -1, -1))
        real_Bn1X = F.pad(inputs.real_BN, (radius, radius + spare)).unfold(1, T + 2 * radius, T)[:, :, None]
        low = torch.finfo(near_BHnTX.dtype).min  # finite: padding may see nothing
        near_BHnTX = near_BHnTX.masked_fill(~(real_Bn1X & (apart_TX.abs() <= radius))[:, None], low)
        near_BHNX = near_BHnTX.flatten(2, 3)[:, :, :N]
        far_BHNJ = q_BHNK @ far[0].transpose(-1, -2) + self._cross(labels_BHNR, inputs.own_BNJ)
        far_BHNJ = far_BHNJ.masked_fill(~inputs.real_BJ[:, None, None], low)
        weights_BHNY = self._drop(torch.cat([near_BHNX, far_BHNJ], dim=-1).softmax(-1))
        near_BHNX, far_BHNJ = weights_BHNY.split([T + 2 * radius, far_BHNJ.shape[-1]], dim=-1)
        near_BHnTX = F.pad(near_BHNX, (0, 0, 0, spare)).unflatten(2, (-1, T))
        y_BHNK = (near_BHnTX @ v_BHnKX.transpose(-1, -2)).flatten(2, 3)[:, :, :N]
        return y_BHNK + far_BHNJ @ far[1]

    def _global(
        self, q_BHJK: Tensor, long: tuple[Tensor, Tensor], among: tuple[Tensor, Tensor], inputs: Inputs
    ) -> Float[Tensor, "B H J K"]:
        J, clip = q_BHJK.shape[2], self.config.clip
        labels_BHJR = q_BHJK @ self.label_HRK[:, self.config.labels :].transpose(1, 2)
        j_J = torch.arange(J, device=q_BHJK.device)
        label_JJ = (j_J - j_J[:, None]).clamp(-clip, clip) + clip
        among_BHJJ = q_BHJK @ among[0].transpose(-1, -2)
        among_BHJJ = among_BHJJ + labels_BHJR.gather(-1, label_JJ.expand(*labels_BHJR.shape[:2], -1, -1))
        own_BJN, low = inputs.own_BNJ.transpose(1, 2), torch.finfo(q_BHJK.dtype).min
        long_BHJN = q_BHJK @ long[0].transpose(-1, -2) + self._cross(labels_BHJR, own_BJN)
        seen_BJN = inputs.real_BN[:, None] & own_BJN if self.config.g2l == "own" else inputs.real_BN[:, None]
        among_BHJJ = among_BHJJ.masked_fill(~inputs.real_BJ[:, None, None], low)
        scores_BHJL = torch.cat([among_BHJJ, long_BHJN.masked_fill(~seen_BJN[:, None], low)], dim=-1)
        weights_BHJL = self._drop(scores_BHJL.softmax(-1))
        return weights_BHJL[..., :J] @ among[1] + weights_BHJL[..., J:] @ long[1]

    @staticmethod
    def _cross(labels_BHXR: Tensor, own_BXY: Bool[Tensor, "#B X Y"]) -> Float[Tensor, "B H X Y"]:
        """What the labels between long and global tokens add to scores; they are the last two."""
        return torch.where(own_BXY[:, None], labels_BHXR[..., -2, None], labels_BHXR[..., -1, None])

    def _drop(self, weights: Tensor) -> Tensor:
        return F.dropout(weights, self.config.dropout, self.training) if self.config.dropout else weights
