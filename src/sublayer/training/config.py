"""How a model is trained, as data: what `train.…` keys set."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sublayer.nn.config import Config, Count, Positive, Rate
from sublayer.training.optimizer import AdamW, Optimizer
from sublayer.training.schedule import Cosine, Schedule

Precision = Literal["fp32", "bf16"]
NotNegative = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class TrainConfig(Config, tag="train"):
    """Every field is a key: train.steps=2000, train.optimizer=lamb, train.schedule.floor=0."""

    steps: Count | None = 1000
    """The budget in optimiser steps; null for no limit."""
    tokens: Count | None = None
    """The budget in tokens read, what fills up rows included; the first budget that is spent ends the training."""
    minutes: Positive | None = None
    """The budget in wall time."""
    batch: Annotated[Count, Field(le=2**20)] = 16
    """Rows read at a time, by all processes together."""
    length: Annotated[Count, Field(le=2**24)] = 128
    """Tokens in a row; where a task is learned without carrying state, a row is an episode instead."""
    accumulate: Count = 1
    """Batches to one optimiser step."""
    seed: Seed = 0
    """Of the weights, the order of the data and dropout."""
    lr: Positive = 1e-3
    """The highest learning rate; a tenth of it where weights come from another run (train.start)."""
    warmup: NotNegative = 50
    """Steps in which the rate rises from 0."""
    schedule: Schedule.Config = Cosine.Config()
    """How the rate falls over the budget: cosine, linear, inverse_sqrt, constant."""
    optimizer: Optimizer.Config = AdamW.Config()
    """adamw, adam, lamb, sgd."""
    clip: Positive | None = 1.0
    """The greatest norm of a gradient; longer ones are shortened to it. null: as they are."""
    smoothing: Rate = 0.0
    """Of labels: how much of each target is spread over all tokens."""
    precision: Precision = "fp32"
    """bf16: products by autocast; weights and sums stay in fp32."""
    recompute: bool = False
    """Form activations again in the backward pass instead of keeping them: less memory, a third more work."""
    grow_from: Count | None = None
    """Tokens in a row at first, growing to `length` (growing BPTT), or to whole episodes."""
    grow_over: Count = 1000
    """Steps in which they grow."""
    carry: bool | None = None
    """Whether state goes from batch to batch, which then follow each other in the text; null: if the model has a
    memory for it (Transformer-XL)."""
    mask: Rate = 0.15
    """Of tokens that an encoder has to guess."""
    start: str | None = None
    """A run whose weights to start from (fine-tuning), at a tenth of the rate."""
    log_every: Count = 10
    """Steps between lines of metrics."""
    eval_every: Count | None = None
    """Steps between scores on valid; null: a tenth of the steps, or 100."""
    eval_tokens: Count | None = 100_000
    """Tokens of valid that are scored then; null: all."""
    save_every: Count | None = None
    """Steps between checkpoints; null: as eval_every."""
    keep: Count = 2
    """Checkpoints that are kept, the best apart."""
    patience: Count | None = None
    """Stop after so many scores in a row that are no better than the best."""
    average: NotNegative = 0
    """Average the weights of so many of the last checkpoints when done."""
    explode: Positive = 1.5
    """Stop when the loss goes above so many times the first one, or so many nats where that was less than one."""
    threads: Annotated[Count, Field(le=1024)] | None = None
    """Processor threads; null: as many as PyTorch takes."""
    device: str | None = None
    """cpu, cuda, …; null: an accelerator if there is one."""
    shard: bool = False
    """With several processes: divide weights and optimiser among them (FSDP2) instead of copying them (DDP)."""
    tensorboard: bool = False
    """Write TensorBoard files to RUN/tensorboard, too; needs the extra track."""

    @model_validator(mode="after")
    def _possible(self) -> TrainConfig:
        if self.steps is None and self.tokens is None and self.minutes is None:
            raise ValueError("steps, tokens and minutes are all none, so training would not end; set one of them")
        if self.grow_from is not None and self.grow_from > self.length:
            raise ValueError(f"grow_from={self.grow_from} is more than length={self.length}; rows grow, use less")
        return self

    @property
    def rate(self) -> float:
        """The highest learning rate, as it is used."""
        return self.lr if self.start is None else self.lr / 10

    @property
    def evaluates_every(self) -> int:
        return self.eval_every or (max(1, self.steps // 10) if self.steps else 100)

    @property
    def saves_every(self) -> int:
        return self.save_every or self.evaluates_every

    def length_at(self, step: int, longest: int) -> int:
        """Tokens in a row at a step, of rows that grow to the longest."""
        if self.grow_from is None or step >= self.grow_over:
            return longest
        return self.grow_from + (longest - self.grow_from) * step // self.grow_over
