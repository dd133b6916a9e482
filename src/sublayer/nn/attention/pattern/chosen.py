"""Global tokens: a few that everyone sees, and that see everyone."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field, model_validator
from torch import Tensor

from sublayer.nn.attention.bands import Band
from sublayer.nn.attention.pattern.base import Bands, Pattern
from sublayer.nn.attention.ranges import Ranges, disjoint
from sublayer.nn.config import Count


class Global(Pattern):
    """Everyone sees the chosen tokens, and these see everyone (Beltagy et al. 2020; Zaheer et al. 2020).

    Chosen are the first tokens of the text, or the last ones of every group of so many.
    """

    class Config(Pattern.Config, tag="global"):
        first: Annotated[int, Field(ge=0)] = 1
        """Tokens chosen at the beginning."""
        every: Count | None = None
        """Tokens of a group, the last of which are chosen; None: no groups."""
        count: Count = 1
        """How many of each group."""
        see_all: bool = True
        """Whether the chosen see everyone, or are only seen."""

        @model_validator(mode="after")
        def _possible(self) -> Global.Config:
            if self.every is not None and self.count > self.every:
                raise ValueError(f"count={self.count}: a group has every={self.every} tokens; choose at most as many")
            if self.first == 0 and self.every is None:
                raise ValueError("first=0 and no groups: nobody is chosen; use first=1, or every=64")
            return self

        def check_length(self, length: int) -> None:
            if self.first > length:
                raise ValueError(
                    f"first={self.first}: more than the {length} tokens of a text; use at most {length}, or longer "
                    "texts"
                )
            if self.every is not None and self.every > length:
                raise ValueError(
                    f"every={self.every}: a text of {length} tokens has no such group; use at most {length}, or longer "
                    "texts"
                )

        def chosen(self, j: Tensor) -> Tensor:
            found = j < self.first
            return found if self.every is None else found | (j % self.every >= self.every - self.count)

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return (self.chosen(j) | self.chosen(i)) if self.see_all else self.chosen(j).expand_as(i - j)

        @property
        def recent(self) -> int | None:
            return None if self.see_all and self.every is not None else 0

        @property
        def lasting(self) -> int | None:
            return self.first if self.every is None else None

        def lasts(self, j: Tensor) -> Tensor:
            return self.chosen(j)

        def ranges(self, i: int) -> Ranges:
            if self.see_all and self.chosen(torch.tensor(i)):
                return (range(i + 1),)
            first, every = range(min(self.first, i + 1)), self.every
            columns = () if every is None else (range(every - n, i + 1, every) for n in range(self.count, 0, -1))
            return disjoint([first, *columns])

        def bands(self, length: int, memory: int, start: int) -> Bands:
            """The chosen see all keys; the others see those of the chosen."""
            chosen_M = self.chosen(torch.arange(start - memory, start + length))
            columns = chosen_M.nonzero().flatten().int()
            # Columns that begin the text need no order, so that other members of a union are cut by intervals.
            keys = None if bool(chosen_M[: len(columns)].all()) else columns
            rows_L = chosen_M[memory:] if self.see_all else torch.zeros(length, dtype=torch.bool)
            none_L = torch.zeros(length, dtype=torch.int32)
            whole, few = Band(none_L, none_L + (memory + length)), Band(none_L, none_L + len(columns), None, keys)
            return whole.only(rows_L), few.only(~rows_L)
