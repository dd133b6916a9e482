"""Linformer: attention on few sums of all keys, in time linear in the length."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention.kernel import linformer_reference
from sublayer.nn.attention.kernel.base import Kernel, Load, View
from sublayer.nn.attention.kernel.low_rank import LowRank, Plan, Share, summed
from sublayer.nn.attention.kernel.softmax import DENSE, attend
from sublayer.nn.attention.pattern import Pattern, Sight
from sublayer.nn.attention.ranks import Ranks
from sublayer.nn.attention.span import Span
from sublayer.nn.config import Count
from sublayer.nn.memory import KeyValues, Memory
from sublayer.nn.part import Slot
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene


class Linformer(Kernel):
    """softmax(q (E k)ᵀ/√K) F v: E and F make a text of up to `limit` tokens `rank` slots (Wang et al. 2020, section 4).

    Every slot may mix all tokens, so it has no causal form; `linformer_causal` is ours. Tokens are counted from the
    first of the text, padding left out: token t has column t of E, and a text of L tokens uses the first L columns.

    The paper fixes the length, and says nothing of padding. `vary` gives layers ranks of their own:
    `s.kernel.rank=[256, 128]`. In cross-attention the slots are made once, of the source.
    """

    class Config(Kernel.Config, tag="linformer"):
        crosses = True

        rank: Count = 256
        """Slots that a text becomes at most."""
        limit: Count = 512
        """Tokens of the longest text; `mean` and `max` read longer ones too."""
        how: Literal["learned", "mean", "max", "convolution"] = "learned"
        """How tokens become slots. learned: E and F are matrices, rank × limit. mean, max: over windows of ⌈L/rank⌉ of
        the text's L tokens. convolution: over windows of ⌈limit/rank⌉, whatever L, with a filter for each channel. The
        last window may be short, and windows may be fewer than `rank`."""
        share: Share = "none"
        """What is learned once: none: E and F for each key head; heads: one E and one F for all heads; keys_values: one
        matrix for both; layers: this one for all layers of the stack where it has the same shape."""

        @model_validator(mode="after")
        def _possible(self) -> Linformer.Config:
            if self.learns and self.rank > self.limit:
                raise ValueError(
                    f"rank={self.rank}: texts of limit={self.limit} tokens have no more to compress; use a rank up to "
                    f"{self.limit}, or a larger limit"
                )
            if not self.learns and self.share != "none":
                raise ValueError(f"share={self.share}: how={self.how} learns nothing to be shared; leave share out")
            return self

        @property
        def learns(self) -> bool:
            return self.how in ("learned", "convolution")

        @property
        def stride(self) -> int:
            """Tokens of a window of the convolution."""
            return -(-self.limit // self.rank)

        def slots(self, length: int) -> int:
            if self.how == "learned":
                return self.rank
            window = self.stride if self.how == "convolution" else -(-length // self.rank)
            return -(-length // window)

        def check(self, pattern: Pattern.Config, memory: Memory.Config, span: Span.Config) -> None:
            if pattern.causal:
                raise ValueError(
                    f"kernel={self.tag} mixes all tokens, the future included; use kernel=linformer_causal, or "
                    "pattern=full in an encoder"
                )
            if not pattern.unrestricted:
                raise ValueError(
                    f"kernel={self.tag} mixes all tokens, but pattern={pattern.tag} hides some of them; use "
                    "pattern=full, or kernel=softmax"
                )
            super().check(pattern, memory, span)

        def check_length(self, length: int) -> None:
            self.check_fits(length)
            if self.rank > length and self.slots(length) >= length:
                raise ValueError(
                    f"kernel.rank={self.rank} is longer than texts of {length} tokens, which would not be compressed; "
                    f"use a rank up to {length}, or longer texts"
                )

        def check_fits(self, length: int) -> None:
            """Raise ValueError for a text that is too long; one that is shorter than others can be read."""
            if self.learns and length > self.limit:
                raise ValueError(
                    f"kernel=linformer: it compresses texts of up to limit={self.limit} tokens, got {length}; set "
                    f"kernel.limit={length} and train, or use shorter texts"
                )

        def plan(self, head_dim: int) -> Plan:
            if self.how == "learned":
                return Plan(self.tag, self.share, (self.rank, self.limit), self.limit)
            return Plan(f"{self.tag}_{self.how}", self.share, (self.stride, head_dim), self.stride)

        def params(self, slot: Slot, heads: int, groups: int, head_dim: int) -> int:
            return self.plan(head_dim).params(groups) if self.learns else 0

        def shared_params(self, heads: int, groups: int, head_dim: int) -> dict[str, int]:
            return self.plan(head_dim).shared_params()

        def flops(self, load: Load) -> int:
            pairs = load.heads * load.length * self.slots(load.length)
            return self.storing_flops(load.groups, load.head_dim, load.length) + 2 * 2 * load.head_dim * pairs

        def stored(self, source: int) -> int:
            return self.slots(source) if source else 0

        def storing_flops(self, groups: int, head_dim: int, source: int) -> int:
            return 2 * 2 * head_dim * groups * self.rank * source if self.how == "learned" else 0

    config: Config

    def __init__(self, config: Config, slot: Slot, heads: int, groups: int, head_dim: int) -> None:
        super().__init__(config, slot, heads, groups, head_dim)
        self.weights = None
        if config.learns:
            config.plan(head_dim).give(self, slot, groups)

    weights: LowRank | None

    def forward(
        self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View, state: None = None
    ) -> tuple[Tensor, None]:
        q_BHLK = view.position.query(q_BHLK, view.scene)
        return self._attend(q_BHLK, *self.made(k_BGMK, v_BGMK, view.scene), view.scene, view.dropout), None

    def reference(
        self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View, state: None = None
    ) -> tuple[Tensor, None]:
        q_BHLK = view.position.query(q_BHLK, view.scene)
        return linformer_reference.attend(q_BHLK, k_BGMK, v_BGMK, view.scene, self._compression), None

    def store(self, k_BGSK: Tensor, v_BGSK: Tensor, source: Scene) -> KeyValues:
        """Slots; the slow twin makes them anew for each segment."""
        return KeyValues.of(*((k_BGSK, v_BGSK) if paths.slow() else self.made(k_BGSK, v_BGSK, source)))

    def across(self, q_BHLK: Tensor, stored: KeyValues, source: Scene, dropout: float) -> Tensor:
        both = stored.k.value, stored.v.value
        if paths.slow():
            return linformer_reference.attend(q_BHLK, *both, source, self._compression)
        return self._attend(q_BHLK, *both, source, dropout)

    def made(self, k_BGTK: Tensor, v_BGTK: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
        """The slots of a text."""
        ranks = None if scene.even else Ranks.of(scene, 1, len(k_BGTK))
        e, f = (None, None) if self.weights is None else self.weights.pair
        slots = []
        for x_BGTK, weight in ((k_BGTK, e), (v_BGTK, f)):
            x_BGTK = x_BGTK if ranks is None else ranks.spread(x_BGTK)
            self.config.check_fits(x_BGTK.shape[2])
            slots.append(self.compress(x_BGTK, None if ranks is None else ranks.count_B, weight))
        return slots[0], slots[1]

    def _attend(self, q_BHLK: Tensor, k_BGnK: Tensor, v_BGnK: Tensor, scene: Scene, dropout: float) -> Tensor:
        """On slots of the tokens of this scene."""
        seen, valid_BL = Sight(), scene.valid_BL
        if valid_BL is not None:
            seen = Sight(self.real(valid_BL.sum(1), k_BGnK.shape[2])[:, None, None])
        return attend(q_BHLK, k_BGnK, v_BGnK, seen, NoPosition(), scene, dropout=dropout)

    @property
    def _compression(self) -> linformer_reference.Compression:
        weights = None if self.weights is None else self.weights.pair
        return linformer_reference.Compression(self.config.how, self.config.rank, self.config.stride, weights)

    def exact(self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View) -> Tensor:
        return attend(q_BHLK, k_BGMK, v_BGMK, view.sight, view.position, view.scene)

    def compress(
        self, x_BGTK: Float[Tensor, "B G T K"], count_B: Int[Tensor, " B"] | None, weight: Tensor | None
    ) -> Float[Tensor, "B G n K"]:
        """`count_B`: of each row the first so many are tokens, and what follows is zeros; None: all are tokens."""
        T, how = x_BGTK.shape[2], self.config.how
        if how == "learned":
            assert weight is not None
            return summed(x_BGTK, weight[:, :, :T])
        size = self._window(T if count_B is None else count_B)
        x_BGnwK, inside_Bnw = _windows(x_BGTK, count_B, size)
        if how == "convolution":
            return (x_BGnwK * weight[:, None]).sum(3)  # pyright: ignore[reportOptionalSubscript]
        return (_mean if how == "mean" else _most)(x_BGnwK, inside_Bnw)

    def _window(self, tokens: int | Tensor) -> int | Tensor:
        """Tokens of a window, of texts with so many."""
        if self.config.how == "convolution":
            return self.config.stride
        size = -(-tokens // self.config.rank)
        return size if isinstance(size, int) else size.clamp(min=1)

    def real(self, count_B: Int[Tensor, " B"], slots: int) -> Bool[Tensor, "B n"]:
        """Which slots stand for a token, in rows of so many."""
        if self.config.how == "learned":
            return (count_B > 0)[:, None].expand(-1, slots)
        size = self._window(count_B)
        first_Bn = torch.arange(slots, device=count_B.device) * (size if isinstance(size, int) else size[:, None])
        return first_Bn < count_B[:, None]

    def path(self, part: nn.Module, mode: paths.Mode) -> paths.Choice:
        return paths.report(DENSE, part, mode, plain="PyTorch's attention")


def _windows(
    x_BGTK: Tensor, count_B: Tensor | None, size: int | Tensor
) -> tuple[Float[Tensor, "B G n w K"], Bool[Tensor, "#B n w"]]:
    """Tokens by window, and which of these are tokens; the others are zeros. `size`: of a window, of each row."""
    T = x_BGTK.shape[2]
    if isinstance(size, int):
        n = -(-T // size)
        x_BGnwK = F.pad(x_BGTK, (0, 0, 0, n * size - T)).unflatten(2, (n, size))
        t_nw = torch.arange(n * size, device=x_BGTK.device).view(n, size)
        return x_BGnwK, (t_nw < T)[None] if count_B is None else t_nw < count_B[:, None, None]
    assert count_B is not None
    n, w = int((-(-count_B // size)).max()), int(size.max())
    n_n1, w_w = (torch.arange(most, device=x_BGTK.device) for most in (max(1, n), w))
    t_Bnw = n_n1[:, None] * size[:, None, None] + w_w
    inside_Bnw = (w_w < size[:, None, None]) & (t_Bnw < count_B[:, None, None])
    t_BGTK = t_Bnw.flatten(1).clamp(max=T - 1)[:, None, :, None].expand(-1, x_BGTK.shape[1], -1, x_BGTK.shape[3])
    x_BGnwK = x_BGTK.gather(2, t_BGTK).unflatten(2, t_Bnw.shape[1:])
    return x_BGnwK * inside_Bnw[:, None, ..., None].to(x_BGTK.dtype), inside_Bnw


def _mean(x_BGnwK: Tensor, inside_Bnw: Tensor) -> Tensor:
    return x_BGnwK.sum(3) / inside_Bnw.sum(-1).clamp(min=1)[:, None, :, None].to(x_BGnwK.dtype)


def _most(x_BGnwK: Tensor, inside_Bnw: Tensor) -> Tensor:
    """The largest; zeros of a window without tokens."""
    top_BGnK = x_BGnwK.masked_fill(~inside_Bnw[:, None, ..., None], -torch.inf).amax(3)
    return top_BGnK.masked_fill(~inside_Bnw[..., 0][:, None, :, None], 0)
