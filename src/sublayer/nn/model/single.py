"""What models with one stack share: embedding, stack, head, and their cost."""

from __future__ import annotations

from typing import ClassVar

from sublayer.nn.embedding import Embedding, Head, TiedHead, TokenEmbedding
from sublayer.nn.model.base import Model
from sublayer.nn.model.cost import Cost, Flops
from sublayer.nn.part import Work
from sublayer.nn.stack import Stack


class SingleStack(Model):
    """Abstract: ids → embedding → stack → head."""

    class Config(Model.Config):
        shortcuts: ClassVar[tuple[str, ...]] = ("stack",)

        embedding: Embedding.Config = TokenEmbedding.Config()
        stack: Stack.Config
        head: Head.Config = TiedHead.Config()

        @property
        def stacks(self) -> dict[str, Stack.Config]:
            return {"": self.stack}

        def cost(self, length: int = 64, memory: int | None = None) -> Cost:
            memory = self.stack.remembered if memory is None else memory
            flops = Flops(
                length,
                memory,
                embedding=self.embedding.flops(self.vocab, self.dim, length),
                stack=self.stack.flops(self.dim, Work(length, memory, frozen=False)),
                head=self.head.flops(self.vocab, self.dim, self.embedding, length),
                frozen_stack=self.stack.flops(self.dim, Work(length, memory, frozen=True)),
            )
            return Cost(
                tokens=self.embedding.params(self.vocab, self.dim),
                positions=self.stack.position_params(self.dim),
                stack=self.stack.params(self.dim),
                final_norm=self.stack.final_norm.params(self.dim),
                head=self.head.params(self.vocab, self.dim, self.embedding),
                flops=flops,
            )

    @property
    def writer(self) -> Stack:
        return self.stack

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = config.embedding.build(config.vocab, config.dim)
        self.stack = config.stack.build(config.dim)
        self.head = config.head.build(config.vocab, config.dim, self.embedding)
