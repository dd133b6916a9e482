"""Scene: what a forward pass knows besides x. Frozen; made by the model, read by every part.

Most passes are *even*: all rows start at the same position and every token is real, so positions are one range and no
validity is stored. Padding or explicit position ids make a pass *ragged*: positions and validity become tensors, of
this segment and of the tokens before it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Scene:
    i_BL: Int[Tensor, "#B L"]
    """Position of each token of the segment."""
    start: int = 0
    """Number of tokens (padding included) before this segment."""
    valid_BL: Bool[Tensor, "#B L"] | None = None
    """False on padding; None if no token is padding."""
    past_i_BP: Int[Tensor, "#B P"] | None = None
    """Positions of the earlier tokens; None in an even pass."""
    past_valid_BP: Bool[Tensor, "#B P"] | None = None
    """False where an earlier token is padding; None in an even pass."""
    segment_L: Int[Tensor, " L"] | None = None
    """For each token, the index at which its segment starts, where one pass stands for several (Transformer-XL)."""
    globals: int = 0
    """How many of the tokens, the first ones, are global ones that a stack put in front of the text."""
    summary_BL: Int[Tensor, "#B L"] | None = None
    """For each token, which of those stands for its segment; −1: none, as for themselves. None if there are none."""
    far: int | None = None
    """How far behind the segment's first token the oldest slot stands, where a memory knows; None: by position."""
    source_BSD: Float[Tensor, "B S D"] | None = None
    source_valid_BS: Bool[Tensor, "B S"] | None = None
    losses: dict[str, Tensor] = field(default_factory=dict)
    """The sink for auxiliary losses, by name."""
    outputs: dict[str, Tensor] = field(default_factory=dict)
    """The sink for further outputs of a stack, by name (exits)."""
    cached: dict[Hashable, Any] = field(default_factory=dict)
    """Results of `once_per_pass`; a stack that goes token by token hands them from scene to scene."""
    _once: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return self.i_BL.shape[1]

    @property
    def even(self) -> bool:
        """All rows alike: positions are one range, nothing is padding."""
        return self.valid_BL is None and self.past_i_BP is None

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """A value that all layers share in this scene (a mask, a rotation), computed by the first that asks."""
        if key not in self._once:
            self._once[key] = make()
        return self._once[key]

    def once_per_pass(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """A value that all tokens of the pass share (a learned span), computed by the first part that asks.

        A stack that goes token by token makes a scene for each; these values outlive it, those of `once` do not."""
        if key not in self.cached:
            self.cached[key] = make()
        return self.cached[key]

    def positions(self, memory: int) -> Int[Tensor, "#B M"]:
        """Positions of the last `memory` tokens before the segment, then of the segment."""
        if memory == 0:
            return self.i_BL
        if self.past_i_BP is not None:
            return torch.cat([self.past_i_BP[:, -memory:], self.i_BL], dim=1)
        return self.once(
            ("positions", memory),
            lambda: torch.arange(self.start - memory, self.start + self.length, device=self.i_BL.device)[None],
        )

    def valid(self, memory: int) -> Bool[Tensor, "#B M"] | None:
        """False where one of those tokens is padding; None if none is."""
        if memory == 0 or self.past_valid_BP is None:
            return self.valid_BL
        now_BL = torch.ones_like(self.i_BL, dtype=torch.bool) if self.valid_BL is None else self.valid_BL
        return torch.cat([self.past_valid_BP[:, -memory:], now_BL], dim=1)

    def past_valid(self, memory: int) -> Bool[Tensor, "#B P"] | None:
        """False where one of those tokens before the segment is padding; None if none is."""
        return None if memory == 0 or self.past_valid_BP is None else self.past_valid_BP[:, -memory:]

    def after(self, i_BP: Int[Tensor, "#B P"], valid_BP: Bool[Tensor, "#B P"], far: int | None = None) -> Scene:
        """The same segment after other slots: what a memory offers instead of the tokens just before the segment."""
        B = max(len(self.i_BL), len(i_BP), len(valid_BP))
        valid_BL = torch.ones_like(self.i_BL, dtype=torch.bool) if self.valid_BL is None else self.valid_BL
        now = {"i_BL": self.i_BL.expand(B, -1), "valid_BL": valid_BL.expand(B, -1)}
        past = {"past_i_BP": i_BP.expand(B, -1), "past_valid_BP": valid_BP.expand(B, -1)}
        return replace(self, **now, **past, far=far, _once={})

    def cut(self, t: int, count: int) -> Scene:
        """The scene of `count` tokens from t on, with those before them as their past; `count` may be 0."""
        source = {"source_BSD": self.source_BSD, "source_valid_BS": self.source_valid_BS}
        known: dict[str, Any] = {"losses": self.losses, "outputs": self.outputs, "cached": self.cached, **source}
        cuts_L = None if self.segment_L is None else self.segment_L[t : t + count]
        now, before = slice(t, t + count), self.start + t
        if self.even:
            return Scene(self.i_BL[:, now], before, segment_L=cuts_L, **known)
        i_BM, valid_BM = self.positions(self.start), self.valid(self.start)
        assert valid_BM is not None
        past = (i_BM[:, :before], valid_BM[:, :before]) if before else (None, None)
        return Scene(i_BM[:, self.start :][:, now], before, valid_BM[:, self.start :][:, now], *past, cuts_L, **known)

    def add_loss(self, name: str, loss: Tensor) -> None:
        """Add to a named auxiliary loss."""
        self.losses[name] = self.losses[name] + loss if name in self.losses else loss

    def add_output(self, name: str, output: Tensor) -> None:
        """A further output of the stack, for callers that pass `outputs=`."""
        self.outputs[name] = output


def check_mask(name: str, mask: Tensor, shape: tuple[int, ...]) -> None:
    """The one boundary for masks: boolean, of the shape expected; True means "may attend"."""
    if mask.dtype != torch.bool:
        raise ValueError(
            f"{name}: a mask is boolean, True where attention may look, got {mask.dtype}; "
            "write mask.bool() if 1 means real and 0 padding"
        )
    if tuple(mask.shape) != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {tuple(mask.shape)}; give one value per token")


def check_ids(name: str, ids: Tensor, vocab: int) -> None:
    """Token ids are whole numbers in (batch, length); their range is left to the embedding, which checks it itself."""
    if ids.dim() != 2 or ids.shape[1] == 0:
        raise ValueError(f"{name}: expected (batch, length) with at least one token, got shape {tuple(ids.shape)}")
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise ValueError(f"{name}: token ids are whole numbers below {vocab}, got {ids.dtype}; write ids.long()")
