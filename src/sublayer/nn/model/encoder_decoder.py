"""Encoder-decoder: a source read both ways, a target written left to right that looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor

from sublayer.nn.config import Count
from sublayer.nn.embedding import Embedding, Head, TiedHead, TokenEmbedding
from sublayer.nn.model.base import Model, close_scene, open_scene
from sublayer.nn.model.cost import Cost, Flops
from sublayer.nn.model.pairs import check_head, check_stack
from sublayer.nn.part import Work
from sublayer.nn.stack import Stack
from sublayer.nn.state import State


class EncoderDecoder(Model):
    """p(target token | target before it, source) (Vaswani et al. 2017).

    `state = model.start(source_ids)`, then `h, state = model(ids, state)`, as with a decoder.
    """

    class Config(Model.Config, tag="encoder_decoder"):
        writes: ClassVar[bool] = True
        needs_source: ClassVar[bool] = True

        embedding: Embedding.Config = TokenEmbedding.Config()
        """Of the target."""
        source: Embedding.Config | None = None
        """Of the source; None: the target's, shared."""
        source_vocab: Count | None = None
        """Source ids; None: the target's. Only with a source embedding of its own."""
        encoder: Stack.Config
        decoder: Stack.Config
        head: Head.Config = TiedHead.Config()

        @model_validator(mode="after")
        def _possible(self) -> EncoderDecoder.Config:
            check_stack(self.encoder, self.dim, "encoder.", causal=False, source=False)
            check_stack(self.decoder, self.dim, "decoder.", causal=True, source=True)
            check_head(self.head, self.vocab, self.dim, self.embedding)
            if self.source is None and self.source_vocab is not None:
                raise ValueError(
                    f"source_vocab={self.source_vocab} needs an embedding of its own; set source=token, or leave it out"
                )
            return self

        @property
        def stacks(self) -> dict[str, Stack.Config]:
            return {"encoder": self.encoder, "decoder": self.decoder}

        @property
        def source_ids(self) -> int:
            return self.source_vocab or self.vocab

        def cost(self, length: int = 64, memory: int | None = None) -> Cost:
            """For `length` new tokens of the target, and as many of the source, which counts for the first segment."""
            memory = self.decoder.remembered if memory is None else memory
            tokens, D = self.embedding.params(self.vocab, self.dim), self.dim
            read = 0 if memory else self.encoder.flops(D, Work(length))
            source = self.source or self.embedding
            flops = Flops(
                length,
                memory,
                embedding=self.embedding.flops(self.vocab, D, length)
                + (0 if memory else source.flops(self.source_ids, D, length)),
                stack=read + self.decoder.flops(D, Work(length, memory, length, frozen=False)),
                head=self.head.flops(self.vocab, D, self.embedding, length),
                frozen_stack=read + self.decoder.flops(D, Work(length, memory, length, frozen=True)),
            )
            both = (self.encoder, self.decoder)
            return Cost(
                tokens=tokens + (self.source.params(self.source_ids, D) if self.source else 0),
                positions=sum(stack.position_params(D) for stack in both),
                stack=sum(stack.params(D) for stack in both),
                final_norm=sum(stack.final_norm.params(D) for stack in both),
                head=self.head.params(self.vocab, D, self.embedding),
                flops=flops,
            )

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = config.embedding.build(config.vocab, config.dim)
        if config.source:
            self.source = config.source.build(config.source_ids, config.dim)
        self.encoder = config.encoder.build(config.dim)
        self.decoder = config.decoder.build(config.dim)
        self.head = config.head.build(config.vocab, config.dim, self.embedding)

    @property
    def writer(self) -> Stack:
        return self.decoder

    def start(self, source_BS: Tensor | None = None, valid_BS: Tensor | None = None) -> State:
        """Read the source: the state from which the target is written."""
        if source_BS is None:
            raise ValueError("source: an encoder-decoder writes about a source; give a row of ids for each row")
        embedding = self.source if self.config.source else self.embedding
        scene = open_scene(source_BS, self.config.source_ids, None, valid_BS)
        x_BSD = self.encoder.position.embed(embedding.read(source_BS), scene)
        source_BSD, _ = self.encoder(embedding.norm_and_drop(x_BSD), scene, None)
        return State((), source_BSD=source_BSD, source_valid_BS=valid_BS)

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
        if state is None:
            raise ValueError("state: an encoder-decoder needs a source; call state = model.start(source_ids) first")
        if state.source_BSD is not None and len(state.source_BSD) != len(ids_BL):
            raise ValueError(
                f"ids: expected as many rows as the source has, {len(state.source_BSD)}, got {len(ids_BL)}; repeat a "
                "source that several rows read"
            )
        scene = open_scene(ids_BL, self.config.vocab, state, valid_BL, position_BL, segments, losses, outputs)
        x_BLD = self.decoder.position.embed(self.embedding.read(ids_BL), scene)
        h_BLD, parts = self.decoder(self.embedding.norm_and_drop(x_BLD), scene, state.parts)
        return self.decoder.leave(h_BLD), close_scene(scene, parts, state)
