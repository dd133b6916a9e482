"""Examples: one part of a task, its episodes one after another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int64, Integer

Block = tuple[Integer[np.ndarray, "E L"], Integer[np.ndarray, "E L"]]
"""Episodes as rows: tokens, −1 where there is none; the answer asked for at each, −1 where none is."""


@dataclass(frozen=True)
class Examples:
    name: str
    """train, valid or test."""
    inputs_N: Integer[np.ndarray, " N"]
    """Tokens that are read."""
    answers_N: Integer[np.ndarray, " N"]
    """The answer asked for at each token; −1 where none is."""
    start_E: Int64[np.ndarray, " E1"]
    """Where each episode begins, and where the last one ends."""
    alone: bool = False
    """Whether each episode is read by itself."""

    @classmethod
    def join(cls, name: str, blocks: Iterable[Block], alone: bool = False) -> Examples:
        inputs, answers, lengths = [], [], []
        for inputs_EL, answers_EL in blocks:
            there_EL = inputs_EL >= 0
            inputs.append(inputs_EL[there_EL])
            answers.append(answers_EL[there_EL])
            lengths.append(there_EL.sum(1))
        start_E = np.concatenate([[0], np.concatenate(lengths).cumsum()])
        return cls(name, np.concatenate(inputs), np.concatenate(answers), start_E, alone)

    def __len__(self) -> int:
        """Tokens."""
        return len(self.inputs_N)

    @property
    def episodes(self) -> int:
        return len(self.start_E) - 1

    @cached_property
    def lengths(self) -> Int64[np.ndarray, " E"]:
        """Tokens of each episode."""
        return np.diff(self.start_E)

    @property
    def longest(self) -> int:
        """Tokens of the longest episode."""
        return int(self.lengths.max())

    @property
    def asked(self) -> Bool[np.ndarray, " N"]:
        """Where an answer is asked for."""
        return self.answers_N >= 0

    @cached_property
    def questions(self) -> Int64[np.ndarray, " E"]:
        """How many answers each episode asks for."""
        return np.add.reduceat(self.asked, self.start_E[:-1], dtype=np.int64)

    def beginning(self, tokens: int | None) -> Examples:
        """The first episodes, as many as have so many tokens, and at least one; None: all."""
        if tokens is None or tokens >= len(self):
            return self
        count = max(1, int(np.searchsorted(self.start_E, tokens, side="right")) - 1)
        stop = self.start_E[count]
        cut = {"inputs_N": self.inputs_N[:stop], "answers_N": self.answers_N[:stop]}
        return replace(self, **cut, start_E=self.start_E[: count + 1])
