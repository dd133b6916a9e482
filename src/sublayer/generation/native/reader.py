"""The step in C as a path of generation: which models it serves, and the reader that uses it."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.generation.native.served import why_not
from sublayer.generation.native.step import NativeStep
from sublayer.generation.reader import Reader
from sublayer.native.tensors import plain
from sublayer.nn import paths
from sublayer.nn.memory import KeyValues
from sublayer.nn.model import Model
from sublayer.nn.scene import Scene
from sublayer.nn.state import State


class NativeReader(Reader):
    """By the step in C; the model embeds ids for it, and makes scores where the head is more than a matrix."""

    def __init__(self, model: Model, step: NativeStep, scores_BV: Float[Tensor, "B V"]) -> None:
        self.model, self.position = model, model.writer.position
        self.step, self.scores_BV = step, scores_BV

    def read(self, ids_B: Int[Tensor, " B"]) -> None:
        model, start, i_B1 = self.model, self.step.start, self.step.positions()
        even_11 = torch.tensor([[start]], device="cpu")
        scene = Scene(even_11, start) if i_B1 is None else Scene(i_B1, start, torch.ones_like(i_B1, dtype=torch.bool))
        x_B1D = model.embedding.norm_and_drop(self.position.embed(model.embedding.read(ids_B[:, None]), scene))
        out_BN = self.step(x_B1D[:, 0])
        self.scores_BV = out_BN if self.step.scores else model.head(out_BN)

    def select(self, rows_B: Int[Tensor, " B"]) -> None:
        self.scores_BV = self.scores_BV[rows_B]
        self.step.select(rows_B)


def _serves(model: Model, state: State | None) -> bool:
    """Whether C takes over from this state of the model; None asks about the model alone."""
    return why_not(model, "generation") is None and (state is None or all(map(_known, state.parts)))


def _known(state: object) -> bool:
    """Whether a part's state is keys and values in plain arrays, or nothing."""
    if not isinstance(state, KeyValues):
        return state is None
    stored = (state,) if state.far is None else (state, state.far)
    return all(plain(one.k.buffer) and plain(one.v.buffer) for one in stored)


def _run(model: Model, reading: Model, state: State, scores_BV: Float[Tensor, "B V"]) -> NativeReader:
    """`reading`: the same model without overhead."""
    return NativeReader(reading, NativeStep(model, state, len(scores_BV)), scores_BV)


paths.register(paths.FastPath("generation", "one step in C", why_not, _serves, _run))
