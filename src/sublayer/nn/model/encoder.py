"""Encoder: every token sees every other; the head gives the task (masked tokens, classes, spans)."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor

from sublayer.nn.embedding import Head, MaskedLM
from sublayer.nn.model.base import open_scene
from sublayer.nn.model.cost import Cost
from sublayer.nn.model.pairs import check_head, check_stack
from sublayer.nn.model.single import SingleStack
from sublayer.nn.state import State


class Encoder(SingleStack):
    """h = stack(embedding(ids)), bidirectional (BERT, Devlin et al. 2019)."""

    class Config(SingleStack.Config, tag="encoder"):
        remembers: ClassVar[bool] = False
        learns: ClassVar[dict[str, str]] = {"tokens": "masked_tokens"}
        extra_ids: ClassVar[int] = 1

        head: Head.Config = MaskedLM.Config()

        @model_validator(mode="after")
        def _possible(self) -> Encoder.Config:
            check_stack(self.stack, self.dim, "stack.", causal=False, source=False)
            check_head(self.head, self.vocab, self.dim, self.embedding)
            return self

        def cost(self, length: int = 64, memory: int | None = None) -> Cost:
            if memory:
                raise ValueError(
                    f"memory={memory}: an encoder reads everything at once and remembers nothing; leave it 0"
                )
            return super().cost(length, 0)

    def forward(
        self,
        ids_BL: Tensor,
        state: State | None = None,
        valid_BL: Tensor | None = None,
        *,
        type_BL: Tensor | None = None,
        position_BL: Tensor | None = None,
        losses: dict[str, Tensor] | None = None,
        outputs: dict[str, Tensor] | None = None,
    ) -> tuple[Float[Tensor, "B L D"], None]:
        """Hidden vectors. `type_BL` says which sentence a token belongs to, where the embedding has types."""
        if state is not None:
            raise ValueError("state: an encoder reads everything at once and carries nothing on; pass the whole text")
        scene = open_scene(ids_BL, self.config.vocab, None, valid_BL, position_BL, losses=losses, outputs=outputs)
        x_BLD = self.embedding.read(ids_BL)
        if self.config.embedding.types:
            x_BLD = x_BLD + self.embedding.read_types(ids_BL.new_zeros(1, 1) if type_BL is None else type_BL)
        elif type_BL is not None:
            raise ValueError("type_BL: this embedding has no token types; set embedding.types=2")
        x_BLD = self.stack.position.embed(x_BLD, scene)
        h_BLD, _ = self.stack(self.embedding.norm_and_drop(x_BLD), scene, None)
        return self.stack.leave(h_BLD), None
