"""A case: one small model with lively weights, and what laws do with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from sublayer.nn import paths
from sublayer.nn.model import Encoder, EncoderDecoder, Model
from sublayer.nn.state import State


class LawBroken(AssertionError):  # noqa: N818 (it is what it says)
    """A law that does not hold, and where."""


@dataclass(frozen=True)
class Case:
    """What a law is tried with: a config, a seed, how long the text is, and where it is cut."""

    config: Model.Config
    seed: int = 0
    batch: int = 2
    cuts: tuple[int, ...] = (3, 1, 7, 2)

    @property
    def length(self) -> int:
        return sum(self.cuts)

    def model(self, dtype: torch.dtype = torch.float64) -> Model:
        """Built with the seed. Weights are redrawn, loud enough that a mistake in what is attended shows."""
        torch.manual_seed(self.seed)
        model = self.config.build()
        for weight in model.parameters():
            with torch.no_grad():
                if weight.dim() >= 2:
                    weight.normal_(std=weight.shape[-1] ** -0.5)
                else:
                    weight.add_(torch.randn_like(weight) * 0.3)
        return model.to(dtype).eval()

    def ids(self, length: int | None = None, batch: int | None = None, key: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1000 + key)
        shape = (self.batch if batch is None else batch, self.length if length is None else length)
        return torch.randint(self.config.vocab, shape, generator=generator)

    def begin(self, model: Model, rows: Sequence[int] | None = None) -> State | None:
        """Where reading starts: nothing, or the state after a source, whose rows may be chosen."""
        if not isinstance(model, EncoderDecoder):
            return None
        vocab = model.config.source_vocab or model.config.vocab
        source = self.ids(length=5, key=77) % vocab
        return model.start(source if rows is None else source[list(rows)])

    def read(self, model: Model, ids: Tensor, **options: Any) -> Tensor:
        """One pass from the start."""
        return model(ids, self.begin(model), **options)[0]

    def read_in_segments(self, model: Model, ids: Tensor, cuts: Sequence[int]) -> Tensor:
        """One segment after another, with the state carried on."""
        state, hidden = self.begin(model), []
        for segment in ids.split(list(cuts), dim=1):
            h_BLD, state = model(segment, state)
            hidden.append(h_BLD)
        return torch.cat(hidden, dim=1)

    @property
    def bidirectional(self) -> bool:
        return issubclass(self.config.owner, Encoder)

    @property
    def splits(self) -> bool:
        """Whether its mathematics depends on where segments are cut."""
        return any(part.splits for stack in self.config.stacks.values() for part in stack.parts)


def same(here: Tensor, there: Tensor, tolerance: float, what: str) -> None:
    """Equal up to tolerance times the size of the values."""
    if here.shape != there.shape:
        raise LawBroken(f"{what}: shapes {tuple(here.shape)} and {tuple(there.shape)}")
    scale = max(1.0, float(there.detach().abs().max())) if there.numel() else 1.0
    gap = float((here - there).detach().abs().max()) if here.numel() else 0.0
    if not gap <= tolerance * scale:
        raise LawBroken(f"{what}: off by {gap:.3g} where {tolerance * scale:.3g} is allowed")


@contextmanager
def fed(model: Model, x_BLD: Tensor) -> Iterator[None]:
    """The model reads these vectors, whatever the ids."""
    with mock.patch.object(model.embedding, "read", return_value=x_BLD):
        yield


@contextmanager
def by_reference() -> Iterator[None]:
    """Attention by the slow twin."""
    with paths.by_slow_twins():
        yield
