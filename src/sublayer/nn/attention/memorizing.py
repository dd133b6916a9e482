"""Memorizing attention: a window, and beside it the best matches among many earlier keys."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention import memorizing_reference as reference
from sublayer.nn.attention.heads import Heads, join_heads, split_heads
from sublayer.nn.attention.kernel import Softmax, View
from sublayer.nn.attention.multihead import MultiHead
from sublayer.nn.attention.pattern import Pattern, Window
from sublayer.nn.config import Count
from sublayer.nn.linear import linear
from sublayer.nn.memory import Attended, Cache, KeyValues, first_segment
from sublayer.nn.part import Part, Slot, Work
from sublayer.nn.position.base import Position
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene

AT_ONCE = 2**22
"""Scores of a search that are held at one time."""


class Memorizing(Heads):
    """σ(b)·attention to the k best of the memory + (1 − σ(b))·attention to the window (Wu et al. 2022, section 3).

    The memory holds keys and values of the last `size` tokens before the segment, for each row and head, without
    gradient. Each query is matched with all of them, exactly, and attends to the `neighbours` with the largest q·k. b
    is learned for each head, and begins at 0. Queries and keys have length 1, times a learned scale for each head;
    values stay as they are. A row with an empty memory gets 0 from it: then this is windowed attention times 1 − σ(b).

    Positions act on the window alone: what is found in the memory counts by its content, however far away it is.

    Statement on cuts: the memory is searched before the segment is added, so query i searches the tokens j with
    s − size ≤ j < s, where s is the start of i's segment (tokens counted without padding). The window is exact,
    wherever the cuts are.
    """

    class Config(Heads.Config, tag="memorizing"):
        window: Count = 512
        """Tokens of the window, the query's own included."""
        size: Count = 8192
        """Tokens in the memory."""
        neighbours: Count = 32
        """k, keys of the memory that a query attends to."""

        @property
        def local(self) -> MultiHead.Config:
            """The attention to the window."""
            same = {name: getattr(self, name) for name in Heads.Config.model_fields}
            return MultiHead.Config(**same, pattern=self.pattern)

        @property
        def pattern(self) -> Pattern.Config:
            return Window.Config(size=self.window)

        @property
        def patterns(self) -> tuple[Pattern.Config, ...]:
            """Of the window, which is all that a text read at once sees."""
            return self.local.patterns

        @property
        def reach(self) -> int:
            return max(self.size, self.window - 1)

        @property
        def remembered(self) -> int:
            return self.size

        def remembering(self, tokens: int) -> dict[str, Any]:
            return {"size": tokens}

        def starts_from(self, other: Part.Config) -> bool:
            """From plain attention with the same projections; the gates and scales begin as ever."""
            here, there = ({**part.dump(), "pattern": None} for part in (self.local, other))
            return super().starts_from(other) or here == there

        @property
        def splits(self) -> bool:
            return True

        @property
        def carries(self) -> bool:
            return True

        def honours(self, position: Position.Config) -> bool:
            return self.local.honours(position)

        def check(self, slot: Slot) -> None:
            self.local.check(slot)

        def params(self, slot: Slot) -> int:
            return self.local.params(slot) + 2 * self.heads

        def flops(self, slot: Slot, work: Work) -> int:
            H, _, K = self.sizes(slot.dim)
            found = min(work.memory, self.size)
            search = 2 * H * K * work.length * (found + 2 * min(found, self.neighbours))
            return self.local.flops(slot, work) + search

        def state_size(self, slot: Slot, work: Work) -> int:
            _, G, K = self.sizes(slot.dim)
            return 2 * G * K * min(work.memory + work.length, self.reach)

        def activation_size(self, slot: Slot, work: Work, rows: int = 1) -> int:
            return self.local.activation_size(slot, work, rows)

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config = config
        self.heads, self.groups, self.head_dim = config.sizes(slot.dim)
        self.qkv = linear(slot.dim, (self.heads + 2 * self.groups) * self.head_dim, config.bias)
        self.output = linear(self.heads * self.head_dim, slot.dim, config.bias)
        self.gate_H = nn.Parameter(torch.zeros(self.heads))
        # Products of two directions deviate by 1/√K, so that scores begin with a deviation of 1.
        self.scale_H = nn.Parameter(torch.full((self.heads,), self.head_dim**0.5))
        position = slot.position or NoPosition.Config()
        self.position = position.build_layer(slot.dim, self.heads, self.head_dim, slot.shared)
        self.kernel = Softmax.Config().build(slot, self.heads, self.groups, self.head_dim)

    @property
    def twin(self) -> str:
        return "nn/attention/memorizing_reference.py"

    def score_weights(self) -> dict[str, slice]:
        return {"qkv.weight": slice(0, (self.heads + self.groups) * self.head_dim)}

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: KeyValues | None = None
    ) -> tuple[Float[Tensor, "B L D"], KeyValues]:
        sizes = [heads * self.head_dim for heads in (self.heads, self.groups, self.groups)]
        q_BLZ, k_BLZ, v_BLZ = self.qkv(x_BLD).split(sizes, dim=-1)
        q_BHLK = _direction(split_heads(q_BLZ, self.heads)) * self.scale_H[:, None, None]
        k_BGLK, v_BGLK = _direction(split_heads(k_BLZ, self.groups)), split_heads(v_BLZ, self.groups)
        stored = (k_BGLK.detach(), v_BGLK.detach(), scene, self.config.reach)
        held = first_segment(*stored) if state is None else state.attend(*stored)
        near_BHLK = self._window(q_BHLK, k_BGLK, v_BGLK, held.k_BGMK, held.v_BGMK, scene)
        search = reference.search if paths.slow() else _search
        far_BHLK = search(q_BHLK, *_searched(held, scene, self.config.size), self.config.neighbours)
        gate_H11 = self.gate_H.sigmoid()[:, None, None]
        return self.output(join_heads(gate_H11 * far_BHLK + (1 - gate_H11) * near_BHLK)), held.state

    def _window(
        self, q_BHLK: Tensor, k_BGLK: Tensor, v_BGLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, scene: Scene
    ) -> Float[Tensor, "B H L K"]:
        """Attention to the window; keys and values of the segment itself have gradients."""
        past = k_BGMK.shape[2] - scene.length
        # Where rows are padded, the window's tokens need not be the last ones that are stored: it is masked then.
        near = min(past, self.config.window - 1) if scene.even else past
        k_BGNK = torch.cat([k_BGMK[:, :, past - near : past], k_BGLK], dim=2)
        v_BGNK = torch.cat([v_BGMK[:, :, past - near : past], v_BGLK], dim=2)
        dropout = self.config.dropout if self.training else 0.0
        known = self.position, self.config.pattern, Cache.Config()
        view = View(scene, *known, near, dropout=dropout, heads=self.heads)
        weigh = self.kernel.reference if paths.slow() else self.kernel
        # The kernel divides scores by √K.
        return weigh(q_BHLK * self.head_dim**0.5, self.position.key(k_BGNK, scene, near), v_BGNK, view)[0]


def _direction(x_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L K"]:
    """Of length 1; squares are summed in fp32 at least."""
    return F.normalize(x_BHLK.to(torch.promote_types(x_BHLK.dtype, torch.float32)), dim=-1).to(x_BHLK.dtype)


def _searched(held: Attended, scene: Scene, size: int) -> tuple[Tensor, Tensor, Bool[Tensor, "#B L M"]]:
    """Keys and values that hold the last `size` tokens before the segment of each query, and which those are."""
    past = held.k_BGMK.shape[2] - scene.length
    seen_BLM = scene.once(("searched", past, size), lambda: _last_before(scene, past, size))
    if scene.segment_L is not None:  # some of the tokens of this pass are of earlier segments
        return held.k_BGMK, held.v_BGMK, seen_BLM
    columns = slice(past - min(past, size) if scene.even else 0, past)
    return held.k_BGMK[:, :, columns], held.v_BGMK[:, :, columns], seen_BLM[..., columns]


def _last_before(scene: Scene, past: int, size: int) -> Bool[Tensor, "#B L M"]:
    """Which of the `past` stored tokens and of the segment are among the last `size` before each query's segment."""
    device, valid_BM = scene.i_BL.device, scene.valid(past)
    if valid_BM is None:
        valid_BM = torch.ones(1, past + scene.length, dtype=torch.bool, device=device)
    before_BM = valid_BM.cumsum(1) - valid_BM.long()  # real tokens stored before each
    first_L = torch.full((scene.length,), scene.start, device=device) if scene.segment_L is None else scene.segment_L
    column_L = first_L - scene.start + past
    begins_BL = before_BM[:, column_L]
    behind_LM = torch.arange(past + scene.length, device=device) < column_L[:, None]
    return (before_BM[:, None] >= begins_BL[..., None] - size) & behind_LM & valid_BM[:, None]


def _search(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BGMK: Float[Tensor, "B G M K"],
    v_BGMK: Float[Tensor, "B G M K"],
    seen_BLM: Bool[Tensor, "#B L M"],
    neighbours: int,
) -> Float[Tensor, "B H L K"]:
    """Attention of each query to the best of the keys that it may see; 0 where there are none."""
    M = k_BGMK.shape[2]
    if not M:
        return torch.zeros_like(q_BHLK)
    best_BHLn = _best(q_BHLK.detach(), k_BGMK, seen_BLM, min(neighbours, M))
    B, H = best_BHLn.shape[:2]
    row_B111 = torch.arange(B, device=q_BHLK.device)[:, None, None, None]
    group_H11 = torch.arange(H, device=q_BHLK.device)[:, None, None] // (H // k_BGMK.shape[1])
    k_BHLnK, v_BHLnK = (x[row_B111, group_H11, best_BHLn] for x in (k_BGMK, v_BGMK))
    scores_BHLn = (k_BHLnK @ q_BHLK[..., None])[..., 0]
    found_BHLn = seen_BLM[:, None].expand(B, H, -1, -1).gather(-1, best_BHLn)
    weights_BHLn = scores_BHLn.masked_fill(~found_BHLn, -torch.inf).softmax(-1)
    weights_BHLn = weights_BHLn.masked_fill(~found_BHLn, 0)  # where nothing is found: NaN
    return (weights_BHLn[..., None, :] @ v_BHLnK)[..., 0, :]


@torch.no_grad()
def _best(q_BHLK: Tensor, k_BGMK: Tensor, seen_BLM: Tensor, count: int) -> Tensor:
    """Which keys have the largest products with each query; of few queries at a time, so that scores stay small."""
    B, H, L, _ = q_BHLK.shape
    each = H // k_BGMK.shape[1]
    k_BHKM = (k_BGMK if each == 1 else k_BGMK.repeat_interleave(each, dim=1)).transpose(-1, -2)
    step = max(1, AT_ONCE // (B * H * k_BHKM.shape[-1]))
    found = []
    for t in range(0, L, step):
        scores_BHnM = q_BHLK[:, :, t : t + step] @ k_BHKM
        scores_BHnM = scores_BHnM.masked_fill(~seen_BLM[:, None, t : t + step], -torch.inf)
        found.append(scores_BHnM.topk(count, dim=-1).indices)
    return torch.cat(found, dim=2)
