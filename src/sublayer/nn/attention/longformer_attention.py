"""Longformer's attention: windows, and global tokens that look at the text through projections of their own."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from pydantic import model_validator
from torch import Tensor, nn

from sublayer.nn import paths
from sublayer.nn.attention.heads import Heads, join_heads, split_heads
from sublayer.nn.attention.kernel import attend
from sublayer.nn.attention.multihead import MultiHead
from sublayer.nn.attention.pattern import Global, Pattern, Sight, Union, Window
from sublayer.nn.config import Count
from sublayer.nn.linear import linear
from sublayer.nn.memory import NoMemory
from sublayer.nn.part import Slot, Work
from sublayer.nn.position.base import Position
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene


class LongformerAttention(Heads):
    """The tokens of a text see their window and the global tokens; these see everyone (Beltagy et al. 2020, section 3).

    The queries of global tokens, and the keys and values of all tokens that they look at, come from projections of
    their own; the output projection is one. Global are the tokens at the first `globals` positions.

    It looks both ways: looking back, a first token would see nothing but first tokens, and its own projections would
    hardly matter. The paper's language models have no global tokens; they are `multihead` with `pattern=longformer`.
    """

    class Config(Heads.Config, tag="longformer_attention"):
        window: Pattern.Config = Window.Config(size=257, look="both")
        """What a token sees beside the global tokens. The paper's window of 512 is 256 on each side, the size 257."""
        globals: Count = 1
        """Global tokens, at the beginning."""

        @model_validator(mode="after")
        def _possible(self) -> LongformerAttention.Config:
            if self.window.causal:
                raise ValueError(
                    f"window={self.window.tag} looks back only, but global tokens look both ways; use look=both, or "
                    "multihead with pattern=longformer, which has no projections for global tokens"
                )
            return self

        @property
        def pattern(self) -> Pattern.Config:
            """Who sees whom."""
            return Union.Config(members=(self.window, Global.Config(first=self.globals)))

        @property
        def local(self) -> MultiHead.Config:
            """The attention of tokens that are not global."""
            same = {name: getattr(self, name) for name in Heads.Config.model_fields}
            seen = Union.Config(members=(self.window, Global.Config(first=self.globals, see_all=False)))
            return MultiHead.Config(**same, pattern=seen, memory=NoMemory.Config())

        def at(self, nth: int, count: int) -> LongformerAttention.Config:
            window = self.window.at(nth, count)
            return self if window == self.window else self.but(window=window)

        @property
        def patterns(self) -> tuple[Pattern.Config, ...]:
            return self.pattern.by_head(self.heads)

        @property
        def both_ways(self) -> bool:
            return True

        def turned(self, causal: bool) -> str:
            return "multihead with pattern=longformer"

        @property
        def reach(self) -> int:
            return 0

        def honours(self, position: Position.Config) -> bool:
            return not position.owner.acts_on_scores

        def check(self, slot: Slot) -> None:
            self.local.check(slot)

        def params(self, slot: Slot) -> int:
            H, G, K = self.sizes(slot.dim)
            return self.local.params(slot) + (slot.dim + self.bias) * (H + 2 * G) * K

        def flops(self, slot: Slot, work: Work) -> int:
            (H, G, K), L = self.sizes(slot.dim), work.length
            first = min(self.globals, L)
            own = 2 * slot.dim * (2 * first * H + 2 * L * G) * K
            return self.local.flops(slot, work) + own + 2 * 2 * H * K * first * L

        def activation_size(self, slot: Slot, work: Work, rows: int = 1) -> int:
            return self.local.activation_size(slot, work, rows)

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config = config
        self.local = MultiHead(config.local, slot)
        (H, G, K), self.heads = config.sizes(slot.dim), config.heads
        self.global_query = linear(slot.dim, H * K, config.bias)
        self.global_key_value = linear(slot.dim, 2 * G * K, config.bias)

    @property
    def output_maps(self) -> list[nn.Linear]:
        return self.local.output_maps

    def score_weights(self) -> dict[str, slice]:
        """Global queries and keys; the local attention has its own."""
        return {
            "global_query.weight": slice(None),
            "global_key_value.weight": slice(len(self.global_key_value.weight) // 2),
        }

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Float[Tensor, "B L D"], None]:
        y_BLD, _ = self.local(x_BLD, scene)
        if scene.even:
            i_1J = scene.i_BL[:, : self.config.globals]
            first_BJD = self._global(x_BLD[:, : i_1J.shape[1]], i_1J, x_BLD, scene)
            return torch.cat([first_BJD, y_BLD[:, i_1J.shape[1] :]], dim=1), None
        at_BJ, real_BJ = scene.once(("globals", self.config.globals), lambda: self._chosen(scene))
        at_BJD = at_BJ[..., None].expand(-1, -1, x_BLD.shape[-1])
        y_BJD = self._global(x_BLD.gather(1, at_BJD), scene.i_BL.gather(1, at_BJ), x_BLD, scene)
        y_BJD = torch.where(real_BJ[..., None], y_BJD, y_BLD.gather(1, at_BJD))
        return y_BLD.scatter(1, at_BJD, y_BJD), None

    def _chosen(self, scene: Scene) -> tuple[Int[Tensor, "B J"], Bool[Tensor, "B J"]]:
        """Where the global tokens of each row are; rows with fewer than others have further tokens, marked False."""
        assert scene.valid_BL is not None
        chosen_BL = (scene.i_BL < self.config.globals) & scene.valid_BL
        most = int(chosen_BL.sum(1).max())
        at_BJ = chosen_BL.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        return at_BJ, chosen_BL.gather(1, at_BJ)

    def _global(
        self, x_BJD: Float[Tensor, "B J D"], i_BJ: Int[Tensor, "#B J"], x_BLD: Float[Tensor, "B L D"], scene: Scene
    ) -> Float[Tensor, "B J D"]:
        """What global tokens at positions i get of all tokens."""
        q_BHJK = split_heads(self.global_query(x_BJD), self.heads)
        k_BGLK, v_BGLK = (split_heads(x, self.local.groups) for x in self.global_key_value(x_BLD).chunk(2, dim=-1))
        q_BHJK = self.local.position.query(q_BHJK, Scene(i_BJ))
        k_BGLK = self.local.position.key(k_BGLK, scene, 0)
        seen = Sight(None if scene.valid_BL is None else scene.valid_BL[:, None, None])
        dropout = self.config.dropout if self.training else 0.0
        y_BHJK = attend(q_BHJK, k_BGLK, v_BGLK, seen, NoPosition(), scene, dropout=dropout)
        return self.local.output(join_heads(y_BHJK))

    @property
    def twin(self) -> str | None:
        return self.local.twin

    def path(self, mode: paths.Mode) -> paths.Choice:
        return self.local.path(mode)
