"""Beam search: a fixed number of texts grow side by side, and the best that end are returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field, NonNegativeInt
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.generation.engine import MakeReader
from sublayer.generation.prompts import Rows
from sublayer.generation.reader import read_prompts
from sublayer.generation.request import GenerationRequest
from sublayer.generation.sampling import block_ngrams
from sublayer.generation.stop import Stop, Stops, met
from sublayer.nn.config import Config, Count


class Beam(Config, tag="beam"):
    """How texts grow, and how they rank: by log p(y)/lp(|y|), |y| the number of ids, stop sequence included."""

    width: Count = 4
    """Texts that grow side by side."""
    penalty: Literal["gnmt", "power"] = "gnmt"
    """lp(n): gnmt is ((5 + n)/6)^alpha (Wu et al. 2016, eq. 14), power is n^alpha."""
    alpha: Annotated[float, Field(ge=-10, le=10)] = 0.6
    """0 ranks by probability alone; the larger, the longer the texts."""
    ngram: NonNegativeInt = 0
    """No run of this many ids comes twice in a text, its prompt included; 0 allows it."""
    early: bool = False
    """Whether `width` ended texts are enough; if not, it goes on while a growing one could still rank among them."""

    def lp(self, length: int) -> float:
        return ((5 + length) / 6 if self.penalty == "gnmt" else length) ** self.alpha


@dataclass(frozen=True)
class Hypothesis:
    """One text, without its prompt and its stop sequence."""

    ids: list[int]
    log_prob: float
    """Of the ids, those of the stop sequence included."""
    score: float
    """log_prob over the length penalty."""


def beam_search(
    model: nn.Module,
    prompts: Rows,
    *,
    tokens: int = 128,
    search: Beam | None = None,
    stop: Iterable[Stop] = (),
    eos: int | None = None,
    source: Rows | None = None,
    native: bool = True,
    reader: MakeReader | None = None,
    on_step: Callable[[int], object] = lambda written: None,
) -> list[list[Hypothesis]]:
    """For each prompt up to `search.width` texts, the best first: those that met a stop, or have `tokens` ids.

    The other arguments are those of `generate`.
    """
    task = GenerationRequest.of(model, prompts, tokens, stop, eos, source)
    if tokens == 0:
        return [[Hypothesis([], 0.0, 0.0)] for _ in task.prompts.rows]
    rows = [BeamRow(prompt, search or Beam(), task.stops, tokens) for prompt in task.prompts.rows]
    with torch.inference_mode():
        texts = reader(task) if reader else read_prompts(task, native)
        while live := [row for row in rows if row.growing]:
            on_step(len(live[0].growing[0][0]))
            log_probs_NV = F.log_softmax(texts.scores_BV, dim=-1, dtype=torch.float64)
            steps = _grow(live, log_probs_NV)
            if steps:
                origins_N, tokens_N = torch.tensor(steps, device=log_probs_NV.device).T
                if origins_N.tolist() != list(range(len(log_probs_NV))):
                    texts.select(origins_N)
                texts.read(tokens_N)
    return [row.best() for row in rows]


def _grow(live: Sequence[BeamRow], log_probs_NV: Float[Tensor, "N V"]) -> list[tuple[int, int]]:
    """One id more for each growing text that stays: which row of the batch it comes from, and the id."""
    starts = accumulate((len(row.growing) for row in live[:-1]), initial=0)
    return [
        (start + origin, token)
        for row, start in zip(live, list(starts), strict=True)
        for origin, token in row.grow(log_probs_NV[start : start + len(row.growing)])
    ]


class BeamRow:
    """One prompt's search."""

    def __init__(self, prompt: list[int], search: Beam, stops: Stops, tokens: int) -> None:
        self.prompt, self.search, self.stops, self.tokens = prompt, search, stops, tokens
        self.growing: list[tuple[list[int], float]] = [([], 0.0)]
        """Texts with their log-probabilities; none when the search is over."""
        self.ended: list[Hypothesis] = []

    def best(self) -> list[Hypothesis]:
        return sorted(self.ended, key=lambda text: -text.score)[: self.search.width]

    def grow(self, log_probs_NV: Float[Tensor, "N V"]) -> list[tuple[int, int]]:
        """One id more for the best texts: which of the growing each comes from, and the id. Empty at the end."""
        before, width, length = self.growing, self.search.width, len(self.growing[0][0]) + 1
        self.growing, steps = [], []
        for rank, (origin, token, log_prob) in enumerate(self._candidates(log_probs_NV, before)):
            ids = [*before[origin][0], token]
            if end := met(ids, self.stops):
                # Only ends among the `width` best count: others would not have been continued either.
                if rank < width:
                    self._end(ids[:-end], log_prob, length)
            elif len(self.growing) < width:
                self.growing.append((ids, log_prob))
                steps.append((origin, token))
        if not self.growing and not self.ended:  # every id is blocked
            self.growing, length = before, length - 1
        if length == self.tokens or not steps:
            for ids, log_prob in self.growing:
                self._end(ids, log_prob, length)
        if length == self.tokens or not steps or self._finished(length):
            self.growing, steps = [], []
        return steps

    def _candidates(
        self, log_probs_NV: Float[Tensor, "N V"], texts: list[tuple[list[int], float]]
    ) -> list[tuple[int, int, float]]:
        """The best texts one id longer, with spare ones for those that end: origin, id and log-probability."""
        if self.search.ngram:
            texts_so_far = [self.prompt + ids for ids, _ in texts]
            log_probs_NV = block_ngrams(log_probs_NV, texts_so_far, self.search.ngram)
        total_NV = log_probs_NV + log_probs_NV.new_tensor([[log_prob] for _, log_prob in texts])
        ends = len({stop[-1] for stop in self.stops})
        best = total_NV.flatten().topk(min(self.search.width * (1 + ends), total_NV.numel()))
        ranked = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        V = log_probs_NV.shape[1]
        return [(index // V, index % V, log_prob) for index, log_prob in ranked if log_prob > -torch.inf]

    def _end(self, ids: list[int], log_prob: float, length: int) -> None:
        self.ended.append(Hypothesis(ids, log_prob, log_prob / self.search.lp(max(1, length))))

    def _finished(self, length: int) -> bool:
        """Whether nothing that still grows can rank among the best: probability only falls, lp is monotonous."""
        if len(self.ended) < self.search.width:
            return False
        if self.search.early:
            return True
        most = max(log_prob for _, log_prob in self.growing)
        hope = max(most / self.search.lp(length + 1), most / self.search.lp(self.tokens))
        return hope <= self.best()[-1].score
