"""Reader: a model with the state of a batch of texts. It reads one id per row and scores the next."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.generation.prompts import Rows
from sublayer.generation.request import GenerationRequest
from sublayer.generation.without_overhead import without_overhead
from sublayer.nn import paths
from sublayer.nn.model import Model
from sublayer.nn.state import State

FEW = 8
"""Steps for which it does not pay to copy weights into another layout."""
SHORT = 32
"""Longest prompt that goes through the fast step, where the stack reads token by token anyway."""


class Reader:
    """Abstract: reads ids and holds the scores of the next."""

    scores_BV: Float[Tensor, "B V"]
    """Scores of the next id."""

    def read(self, ids_B: Int[Tensor, " B"]) -> None:
        """Read one id per row."""
        raise NotImplementedError

    def select(self, rows_B: Int[Tensor, " B"]) -> None:
        """Rows in any order and number."""
        raise NotImplementedError


class StateReader(Reader):
    """By the model itself, on its state: for every model."""

    def __init__(self, model: Model, state: State, scores_BV: Float[Tensor, "B V"]) -> None:
        self.model, self.state, self.scores_BV = model, state, scores_BV

    def read(self, ids_B: Int[Tensor, " B"]) -> None:
        h_BLD, self.state = self.model(ids_B[:, None], self.state)
        self.scores_BV = self.model.head(h_BLD[:, -1])

    def select(self, rows_B: Int[Tensor, " B"]) -> None:
        self.scores_BV, self.state = self.scores_BV[rows_B], self.state.select(rows_B)


def path(model: Model) -> paths.Choice:
    """How this model generates, and why not by a faster path."""
    return paths.report("generation", model, "generation")


def read_prompts(request: GenerationRequest, native: bool, *, frozen: bool = True) -> Reader:
    """A reader at the end of the prompts. The model runs in eval mode, whatever mode it is in, and does not change.

    native: whether a fast path may be used. frozen: whether remembered hidden states become keys and values.
    """
    reader = _by_steps(request) if native and frozen else None
    reader = reader or _at_once(request, native, frozen)
    if reader.scores_BV.isnan().any():
        raise ValueError("model: its scores are not numbers (NaN); its weights are damaged; use an earlier checkpoint")
    return reader


def _by_steps(request: GenerationRequest) -> Reader | None:
    """Short prompts of a stack that reads token by token anyway, through a fast step; None for others."""
    prompts, model = request.prompts, request.model
    if not model.writer.steps or request.source or prompts.valid_BL is not None or prompts.length > SHORT:
        return None
    if model.config.splits:  # a prompt cut into tokens would not be the prompt read at once
        return None
    if (fast := paths.find("generation", request.model, None)) is None:
        return None
    model, (first_B, *rest) = without_overhead(request.model), prompts.ids_BL.unbind(1)
    h_BLD, state = model(first_B[:, None])
    reader: Reader = fast.run(request.model, model, model.frozen(state), model.head(h_BLD[:, -1]))
    for ids_B in rest:
        reader.read(ids_B)
    return reader


def _at_once(request: GenerationRequest, native: bool, frozen: bool) -> Reader:
    model, source, prompts = without_overhead(request.model), request.source, request.prompts
    state = model.start(source.ids_BL, source.valid_BL) if source else None
    h_BLD, state = model(prompts.ids_BL, state, prompts.valid_BL)
    state, scores_BV = model.frozen(state) if frozen else state, model.head(h_BLD[:, -1])
    # Looked up once a text, so that no token pays for it.
    if native and (fast := paths.find("generation", request.model, state)) is not None:
        return fast.run(request.model, model, state, scores_BV)
    return StateReader(without_overhead(request.model, steps=request.tokens > FEW), state, scores_BV)


@torch.inference_mode()
def scores_by_token(
    model: Model, ids: Rows, *, prompt: int = 1, source: Rows | None = None, native: bool = True, frozen: bool = True
) -> Float[Tensor, "B N V"]:
    """Scores as generation computes them while it writes these ids: after the first `prompt` of them, then token by
    token; N = length − prompt + 1. What a parallel pass gives from position prompt − 1 on must be the same, cut into
    segments of (prompt, 1, 1, …) for models whose config `splits`. Rows are equally long.
    """
    ids_BL = torch.as_tensor(ids, device=next(model.parameters()).device)
    count: dict[str, Any] = {"tokens": ids_BL.shape[1] - prompt + 1, "source": source}
    reader = read_prompts(GenerationRequest.of(model, ids_BL[:, :prompt], **count), native, frozen=frozen)
    scores = [reader.scores_BV]
    for ids_B in ids_BL[:, prompt:].unbind(1):
        reader.read(ids_B)
        scores.append(reader.scores_BV)
    return torch.stack(scores, dim=1)
