"""A case: one small model with weights that make mistakes visible, a text, and where the text is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from sublayer.nn.attention import Pattern
from sublayer.nn.attention.pattern.base import bands_of
from sublayer.nn.attention.tiles import pairs
from sublayer.nn.model import Model
from sublayer.nn.part import Part, Work
from sublayer.nn.paths import by_slow_twins as by_reference
from sublayer.nn.stack import Stack
from sublayer.nn.state import State
from sublayer.testing.verdict import LawBroken, same

__all__ = ["Case", "LawBroken", "by_reference", "fed", "same"]

FARTHEST = 1000
"""Tokens of the longest case, for windows so wide that a text beyond their blocks would take too long."""
SOURCE = 5
"""Tokens of a source."""


@dataclass(frozen=True)
class Case:
    """What a law is tried with. The models it builds are shared by all laws that ask it for one."""

    config: Model.Config
    seed: int = 0
    batch: int = 2
    cuts: tuple[int, ...] = (3, 1, 7, 2)
    built: dict[Any, Model] = field(default_factory=dict, repr=False, compare=False)

    @property
    def length(self) -> int:
        return sum(self.cuts)

    @property
    def long(self) -> bool:
        """Whether its text is longer than the blocks and tiles; laws then try fewer cuts."""
        return self.length > 64

    def lengthened(self, least: int) -> Case:
        """The same model with a text of at least so many tokens, and beyond every block; its first segment has the
        larger half."""
        length = beyond_bands(self.config, least)
        first = length // 2 + 3
        return replace(self, cuts=(first, 1, length - first - 1))

    def model(self, dtype: torch.dtype = torch.float64) -> Model:
        """Built with the seed, in eval mode. Weights are redrawn, so large that a mistake in what is attended shows."""
        key = (self.seed, dtype)
        if key not in self.built:
            self.built[key] = _redrawn(self.config, self.seed).to(dtype).eval()
        return self.built[key]

    def another_seed(self) -> Case:
        return replace(self, seed=self.seed + 1)

    def ids(self, length: int | None = None, batch: int | None = None, key: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1000 + key)
        shape = (self.batch if batch is None else batch, self.length if length is None else length)
        return torch.randint(self.config.vocab, shape, generator=generator)

    def source(self, rows: Sequence[int] | None = None, batch: int | None = None) -> Tensor | None:
        """Ids to be read before the text, where the model needs them; some rows of them."""
        if not self.config.needs_source:
            return None
        vocab = getattr(self.config, "source_vocab", None) or self.config.vocab
        source = self.ids(SOURCE, batch, key=77) % vocab
        return source if rows is None else source[list(rows)]

    def begin(self, model: Model, rows: Sequence[int] | None = None, batch: int | None = None) -> State | None:
        """Where reading starts: None, or the state after a source."""
        return model.start(self.source(rows, batch))

    def read(self, model: Model, ids: Tensor, **options: Any) -> Tensor:
        """One pass from the start."""
        return model(ids, self.begin(model, batch=len(ids)), **options)[0]

    def read_in_segments(self, model: Model, ids: Tensor, cuts: Sequence[int]) -> Tensor:
        """One segment after another, with the state carried on."""
        state, hidden = self.begin(model, batch=len(ids)), []
        for segment in ids.split(list(cuts), dim=1):
            h_BLD, state = model(segment, state)
            hidden.append(h_BLD)
        return torch.cat(hidden, dim=1)

    def as_cut(self, cuts: Sequence[int]) -> dict[str, Any]:
        """Options of one pass that must equal a reading in these segments."""
        return {"segments": tuple(cuts)} if self.config.splits else {}

    @property
    def by_bands(self) -> bool:
        """Whether a pattern in use needs fewer products than the full rectangle of the text."""
        return any(_by_bands(pattern, self.length) for pattern in patterns(self.config))

    @property
    def forgets(self) -> str | None:
        """An attention that stores nothing of earlier segments, as a reason; None if each stores something."""
        for letter, part, stack in self.attentions():
            reads_back = not part.needs_source and not part.both_ways
            if reads_back and not part.state_size(stack.slot(self.config.dim), Work(1, 1)):
                return f"{letter} ({part.tag}) stores nothing of earlier segments"
        return None

    @property
    def searches(self) -> str | None:
        """As a reason, that a pass in eval mode runs a part of the model only; None if it runs all."""
        found = any(stack.searches for stack in self.config.stacks.values())
        return "in eval mode it runs one of the choices it holds" if found else None

    @property
    def one_way(self) -> bool:
        """Whether it reads from left to right."""
        return self.config.remembers

    def attentions(self) -> Iterator[tuple[str, Part.Config, Stack.Config]]:
        """Each letter in use whose part lets tokens exchange information: letter, part and stack."""
        for stack in self.config.stacks.values():
            for letter, part in stack.alphabet.items():
                if letter in stack.layout and part.attends:
                    yield letter, part, stack


def patterns(config: Model.Config) -> list[Pattern.Config]:
    found = (getattr(part, "pattern", None) for stack in config.stacks.values() for part in stack.parts)
    return [pattern for pattern in found if isinstance(pattern, Pattern.Config)]


def beyond_bands(config: Model.Config, length: int) -> int:
    """So many tokens, or as many more as every pattern in use takes to be computed along bands, if it ever is."""
    for pattern in patterns(config):
        while length < FARTHEST and _sparse(pattern) and not _by_bands(pattern, length):
            length += length // 3
    return length if config.end is None else min(length, config.end - 16)


def _sparse(pattern: Pattern.Config) -> bool:
    return not pattern.triangle and not pattern.unrestricted and bands_of(pattern, 1, 64, 0, 0) is not None


def _by_bands(pattern: Pattern.Config, length: int) -> bool:
    return pairs(pattern, 1, length, 0, 0) < length**2


def _redrawn(config: Model.Config, seed: int) -> Model:
    torch.manual_seed(seed)
    model = config.build()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() >= 2:
                weight.normal_(std=weight.shape[-1] ** -0.5)
            else:
                weight.add_(torch.randn_like(weight) * 0.3)
    return model


@contextmanager
def fed(model: Model, x_BLD: Tensor) -> Iterator[None]:
    """The model reads these vectors, whatever the ids."""
    with mock.patch.object(model.embedding, "read", return_value=x_BLD):
        yield
