"""What kernels with a recurrent form share: chunks in training, and a state of constant size."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from sublayer.nn import paths
from sublayer.nn.attention.kernel import recurrence
from sublayer.nn.attention.kernel.base import Kernel, Load, View
from sublayer.nn.attention.kernel.recurrence import Sums, Terms
from sublayer.nn.attention.pattern import Pattern
from sublayer.nn.attention.span import Span
from sublayer.nn.memory import Memory


class Recurrent(Kernel):
    """Abstract: y_t = S_tᵀ q_t of a recurrence whose terms a kernel gives.

    Sums are taken in float32 at least.
    """

    class Config(Kernel.Config):
        own_state = True
        normed: ClassVar[bool] = True
        """Whether weights sum to one."""
        one_way: ClassVar[bool] = False
        """Whether it has no form in which tokens see later ones."""
        corrects: ClassVar[bool] = False
        """Whether it writes by the delta rule."""

        def check(self, pattern: Pattern.Config, memory: Memory.Config, span: Span.Config) -> None:
            super().check(pattern, memory, span)
            if self.one_way and not pattern.causal:
                raise ValueError(
                    f"kernel={self.tag} reads from left to right, but pattern={pattern.tag} looks both ways; use "
                    "pattern=causal, or kernel=linear or performer"
                )

        def width(self, head_dim: int) -> int:
            """Features of a query or key."""
            return head_dim

        def feature_flops(self, load: Load) -> int:
            """Of forming the terms."""
            return 0

        def flops(self, load: Load) -> int:
            H, G, L, F, K = load.heads, load.groups, load.length, self.width(load.head_dim), load.head_dim
            n, T = recurrence.sizes(L) if load.causal else (1, L)
            tokens = n * T
            sums = (H + G) * tokens * F * K + (H * tokens * F if self.normed else 0)
            chunk = H * tokens * T * (F + K) if load.causal else 0
            corrected = G * tokens * F * (T + K) if self.corrects else 0
            return 2 * (sums + chunk + corrected) + self.feature_flops(load)

        def state_size(self, heads: int, groups: int, head_dim: int) -> int:
            return groups * self.width(head_dim) * (head_dim + (1 if self.normed else 0))

    config: Config  # pyright: ignore[reportIncompatibleVariableOverride]

    @abstractmethod
    def terms(
        self, q_BHLK: Tensor, k_BGLK: Tensor, v_BGLK: Tensor, view: View, state: Sums | None
    ) -> tuple[Terms, Tensor | None]:
        """The terms, in which padding changes nothing; and `Sums.more_BG` after the segment."""

    def path(self, part: nn.Module, mode: paths.Mode) -> paths.Choice:
        return paths.report(recurrence.RECURRENCE, part, mode, plain=super().path(part, mode).path)

    def forward(
        self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View, state: Sums | None = None
    ) -> tuple[Tensor, Sums]:
        return self._run(q_BHLK, k_BGMK, v_BGMK, view, state, _by_chunks, recurrence.both_ways)

    def reference(
        self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View, state: Sums | None = None
    ) -> tuple[Tensor, Sums]:
        return self._run(q_BHLK, k_BGMK, v_BGMK, view, state, recurrence.one_by_one, recurrence.all_pairs)

    def _run(
        self,
        q_BHLK: Tensor,
        k_BGMK: Tensor,
        v_BGMK: Tensor,
        view: View,
        state: Sums | None,
        one_way: recurrence.Form,
        both_ways: recurrence.Form,
    ) -> tuple[Tensor, Sums]:
        dtype = torch.promote_types(q_BHLK.dtype, torch.float32)
        with nullcontext() if q_BHLK.is_meta else torch.autocast(q_BHLK.device.type, enabled=False):
            terms, more_BG = self.terms(q_BHLK.to(dtype), k_BGMK.to(dtype), v_BGMK.to(dtype), view, state)
            width = self.config.width(k_BGMK.shape[-1])
            before = terms.zeros(self.config.normed, width) if state is None else state
            y_BHLK, after = (one_way if view.pattern.causal else both_ways)(terms, before)
            return y_BHLK.to(q_BHLK.dtype), replace(after, more_BG=more_BG)


def _by_chunks(terms: Terms, before: Sums) -> recurrence.Found:
    path = paths.find(recurrence.RECURRENCE, terms, before)
    return recurrence.chunkwise(terms, before) if path is None else path.run(terms, before)


def padding(k_BGLK: Tensor, view: View) -> Tensor | None:
    """The gain by which padding counts for nothing."""
    valid_BL = view.scene.valid_BL
    if valid_BL is None:
        return None
    return k_BGLK.new_zeros(k_BGLK.shape[:3]).masked_fill_(~valid_BL[:, None], -torch.inf)


def of_tokens(x_BLG: Tensor, view: View) -> Tensor:
    """(B, G, L) of what was formed from the input; zeros on padding."""
    valid_BL = view.scene.valid_BL
    return (x_BLG if valid_BL is None else x_BLG * valid_BL[..., None].to(x_BLG.dtype)).transpose(1, 2)
