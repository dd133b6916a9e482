"""Reader: a model in the middle of a batch of texts. It reads one id a row and says how the next one scores."""

from __future__ import annotations

import logging

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.generation.native import NativeStep, NotPlain
from sublayer.generation.request import GenerationRequest, Writer
from sublayer.generation.without_overhead import bare
from sublayer.nn.model import Decoder, EncoderDecoder
from sublayer.nn.scene import Scene
from sublayer.nn.stack import Feedback
from sublayer.nn.state import State

log = logging.getLogger("sublayer.generation")

FEW = 8
"""Steps for which it does not pay to lay weights out anew."""
SHORT = 32
"""Places of a prompt for which it does not, where a stack reads them one by one."""


class Reader:
    """Abstract."""

    scores_BV: Float[Tensor, "B V"]
    """Of the next id."""

    def read(self, ids_B: Int[Tensor, " B"]) -> None:
        """One id a row."""
        raise NotImplementedError

    def select(self, rows_B: Int[Tensor, " B"]) -> None:
        """Rows in any order and number."""
        raise NotImplementedError


class StateReader(Reader):
    """By the model itself, on its state."""

    def __init__(self, model: Writer, state: State, scores_BV: Float[Tensor, "B V"]) -> None:
        self.model, self.state, self.scores_BV = model, state, scores_BV

    def read(self, ids_B: Int[Tensor, " B"]) -> None:
        h_BLD, self.state = self.model(ids_B[:, None], self.state)
        self.scores_BV = self.model.head(h_BLD[:, -1])

    def select(self, rows_B: Int[Tensor, " B"]) -> None:
        self.scores_BV, self.state = self.scores_BV[rows_B], self.state.select(rows_B)


class NativeReader(Reader):
    """By the native step; the model gives it vectors, and makes scores where the head is more than a matrix."""

    def __init__(self, model: Decoder, step: NativeStep, scores_BV: Float[Tensor, "B V"]) -> None:
        self.model, self.step, self.scores_BV = model, step, scores_BV

    def read(self, ids_B: Int[Tensor, " B"]) -> None:
        model, place, i_B1 = self.model, self.step.place, self.step.positions()
        even_11 = torch.tensor([[place]], device="cpu")
        scene = Scene(even_11, place) if i_B1 is None else Scene(i_B1, place, torch.ones_like(i_B1, dtype=torch.bool))
        x_B1D = model.embedding.settle(model.stack.position.embed(model.embedding.read(ids_B[:, None]), scene))
        out_BN = self.step(x_B1D[:, 0])
        self.scores_BV = out_BN if self.step.scores else model.head(out_BN)

    def select(self, rows_B: Int[Tensor, " B"]) -> None:
        self.scores_BV = self.scores_BV[rows_B]
        self.step.select(rows_B)


def read_prompts(task: GenerationRequest, native: bool) -> Reader:
    """A reader at the end of the prompts. The model is read in eval mode, whatever mode it is in, and not touched."""
    reader = _by_steps(task) if native else None
    reader = reader or _at_once(task, native)
    if reader.scores_BV.isnan().any():
        raise ValueError("model: its scores are not numbers (NaN); its weights are spoilt, use an earlier checkpoint")
    return reader


def _by_steps(task: GenerationRequest) -> Reader | None:
    """Short prompts of a stack that goes place by place anyway; None for others."""
    model, ids_BL = bare(task.model), task.prompts.ids_BL
    if not isinstance(model, Decoder) or not isinstance(model.stack, Feedback) or task.prompts.valid_BL is not None:
        return None
    if ids_BL.shape[1] > SHORT:
        return None
    h_BLD, state = model(ids_BL[:, :1])
    try:
        step = NativeStep(task.model, model.frozen(state), len(ids_BL))
    except NotPlain:
        return None
    reader = NativeReader(model, step, model.head(h_BLD[:, -1]))
    for ids_B in ids_BL[:, 1:].unbind(1):
        reader.read(ids_B)
    return reader


def _at_once(task: GenerationRequest, native: bool) -> Reader:
    model, source, prompts = bare(task.model), task.source, task.prompts
    state = model.start(source.ids_BL, source.valid_BL) if isinstance(model, EncoderDecoder) and source else None
    h_BLD, state = model(prompts.ids_BL, state, prompts.valid_BL)
    # Remembered hidden states become keys and values here, once.
    state, scores_BV = model.frozen(state), model.head(h_BLD[:, -1])
    if native and isinstance(model, Decoder):
        try:
            return NativeReader(model, NativeStep(task.model, state, len(scores_BV)), scores_BV)
        except NotPlain as reason:
            log.debug("the native step has no twin for %s; the model reads by itself", reason)
    return StateReader(bare(task.model, steps=task.tokens > FEW), state, scores_BV)
