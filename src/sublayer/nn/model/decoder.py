"""Decoder: a language model, left to right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor

from sublayer.nn.model.base import close_scene, open_scene
from sublayer.nn.model.pairs import check_head, check_stack
from sublayer.nn.model.single import SingleStack
from sublayer.nn.state import State


class Decoder(SingleStack):
    """p(token | tokens before it): embedding, a causal stack, a head."""

    class Config(SingleStack.Config, tag="decoder"):
        writes: ClassVar[bool] = True
        learns: ClassVar[dict[str, str]] = {"tokens": "next_token", "answers": "answers"}

        @model_validator(mode="after")
        def _possible(self) -> Decoder.Config:
            check_stack(self.stack, self.dim, "stack.", causal=True, source=False)
            check_head(self.head, self.vocab, self.dim, self.embedding)
            return self

    def forward(
        self,
        ids_BL: Tensor,
        state: State | None = None,
        valid_BL: Tensor | None = None,
        *,
        position_BL: Tensor | None = None,
        segments: Sequence[int] | None = None,
        losses: dict[str, Tensor] | None = None,
        outputs: dict[str, Tensor] | None = None,
    ) -> tuple[Float[Tensor, "B L D"], State]:
        """Hidden vectors, and the state to go on from.

        segments: read in one pass as if cut so (Transformer-XL). losses: receives what parts add to the loss, by name.
        outputs: receives further outputs of the stack, by name.
        """
        scene = open_scene(ids_BL, self.config.vocab, state, valid_BL, position_BL, segments, losses, outputs)
        x_BLD = self.stack.position.embed(self.embedding.read(ids_BL), scene)
        h_BLD, parts = self.stack(self.embedding.norm_and_drop(x_BLD), scene, state.parts if state else None)
        return self.stack.leave(h_BLD), close_scene(scene, parts, state)
