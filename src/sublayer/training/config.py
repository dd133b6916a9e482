"""The settings of a training: what `train.…` keys set."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from sublayer.nn.config import Config, Count, Positive, Rate
from sublayer.objectives import Objective
from sublayer.runs.request import AUTO, FINAL_TOKENS
from sublayer.training.optimizer import AdamW, Optimizer
from sublayer.training.schedule import Cosine, Schedule
from sublayer.training.stage_config import MOST, StageConfig

Precision = Literal["fp32", "bf16"]
Number = Annotated[Count, Field(le=MOST)]
NotNegative = Annotated[int, Field(ge=0, le=MOST)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class OrAuto:
    """Makes `auto` a value of a number's field. A union of types would name its branches in messages."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any, number: core_schema.ValidatorFunctionWrapHandler) -> Any:
            return value if value == AUTO else number(value)

        plain = core_schema.plain_serializer_function_ser_schema(lambda value: value)
        numbers = handler.generate_schema(Number | None)
        return core_schema.no_info_wrap_validator_function(check, numbers, serialization=plain)


class TrainConfig(Config, tag="train"):
    """Every field is a key: train.steps=2000, train.optimizer=lamb, train.schedule.floor=0."""

    added: ClassVar[frozenset[str]] = frozenset({"objective", "stages"})

    steps: Number | None = 1000
    """The budget in optimiser steps; null for no limit."""
    tokens: Number | None = None
    """The budget in tokens read, padding included; the first budget that is spent ends the training."""
    minutes: Positive | None = None
    """The budget in wall time."""
    batch: Annotated[Count, Field(le=2**20)] = 16
    """Rows in a batch, over all processes."""
    length: Annotated[Count, Field(le=2**24)] = 128
    """Tokens in a row; where a task is learned without carrying state, a row is an episode; of images, an image."""
    accumulate: Annotated[Count, Field(le=2**20)] = 1
    """Batches to one optimiser step."""
    seed: Seed = 0
    """Seed of the weights, the order of the data and dropout."""
    objective: Objective.Config | None = None
    """Training objective: next_token, masked_tokens, answers; null: what the model learns from the kind of data."""
    lr: Positive = 1e-3
    """Peak learning rate; a tenth of it where weights come from another run (train.start)."""
    warmup: NotNegative = 50
    """Steps in which the rate rises linearly from 0 to `lr`; the schedule begins after them."""
    schedule: Schedule.Config = Cosine.Config()
    """How the rate falls over what the warm-up leaves of the budget: cosine, linear, inverse_sqrt, constant."""
    optimizer: Optimizer.Config = AdamW.Config()
    """Optimiser: adamw, adam, lamb, sgd."""
    clip: Positive | None = 1.0
    """Largest norm of a gradient; a longer gradient is scaled down to it. null: no clipping."""
    smoothing: Rate = 0.0
    """Label smoothing: the share of each target that is spread over all tokens."""
    precision: Precision = "fp32"
    """fp32 or bf16. bf16: matrix products by autocast; weights and sums stay in fp32."""
    recompute: bool = False
    """Compute activations again in the backward pass instead of storing them: less memory, a third more work."""
    grow_from: Number | None = None
    """Tokens in a row at first, growing to `length` (growing BPTT), or to whole episodes."""
    grow_over: Number = 1000
    """Steps in which rows grow."""
    stages: tuple[StageConfig, ...] = ()
    """Stages before the run's own settings: a list of tables with `until` (a share of the steps, or a step), and of
    length, batch, lr and model (its keys, such as s.pattern.size) those that differ. Later stages warm up again, for a
    tenth of their steps, at most train.warmup. Figures on valid are those of the stage."""
    carry: bool | None = None
    """Whether state is carried from batch to batch, which then follow each other in the text; null: if the model has a
    memory for it (Transformer-XL)."""
    mask: Rate = 0.15
    """Share of tokens that are hidden from an encoder."""
    start: str | None = None
    """Run whose weights training starts from (fine-tuning), at a tenth of the rate. The models are alike, or parts of
    this one say that they may start from those (memorizing from multihead)."""
    log_every: Number = 10
    """Steps between lines of metrics."""
    eval_every: Number | None = None
    """Steps between evaluations on valid; null: a tenth of the steps, at least 2, or 100."""
    eval_tokens: Annotated[int | Literal["auto"] | None, OrAuto()] = "auto"
    """Tokens of valid that are evaluated; null: all. auto: 100,000 at the end, and on the way a fixed sample of them,
    so small that evaluations take at most a fifth of the work."""
    save_every: Number | None = None
    """Steps between checkpoints; null: as eval_every, or a tenth of the steps, or 100."""
    keep: Number = 2
    """Number of checkpoints to keep, besides the best."""
    patience: Number | None = None
    """Stop after so many evaluations in a row without a new best."""
    average: NotNegative = 0
    """Number of last checkpoints whose weights are averaged at the end."""
    explode: Positive = 1.5
    """Stop when the loss exceeds so many times the first one, or so many nats where that was less than one."""
    threads: Annotated[Count, Field(le=1024)] | None = None
    """Processor threads; null: PyTorch's default."""
    device: str | None = None
    """Device: cpu, cuda, …; null: an accelerator if there is one."""
    shard: bool = False
    """With several processes: shard weights and optimiser (FSDP2) instead of copying them (DDP)."""
    tensorboard: bool = False
    """Write TensorBoard files to RUN/tensorboard, too; needs the extra track."""

    @model_validator(mode="after")
    def _possible(self) -> TrainConfig:
        if self.steps is None and self.tokens is None and self.minutes is None:
            raise ValueError("steps, tokens and minutes are all none, so training would not end; set one of them")
        if self.grow_from is not None and self.grow_from > self.length:
            raise ValueError(f"grow_from={self.grow_from} is more than length={self.length}; rows grow, use less")
        if self.stages:
            self._check_stages(self.stages)
        return self

    def _check_stages(self, stages: tuple[StageConfig, ...]) -> None:
        if self.steps is None:
            raise ValueError(
                "stages: they end at shares of train.steps or at steps, and steps is none; set train.steps"
            )
        if self.grow_from is not None:
            raise ValueError("stages: rows grow by grow_from, too; leave one of them out")
        borders = [0, *self.borders]
        for n, stage in enumerate(stages):
            begin, end = borders[n : n + 2]
            if not begin < end < self.steps:
                raise ValueError(
                    f"stages.{n}.until={stage.until:g}: it would end at step {end}, but begins at step {begin} of "
                    f"{self.steps}, and the run's own settings follow the last stage; use a step between these"
                )

    @property
    def borders(self) -> list[int]:
        """The step at which each stage of `stages` ends."""
        return [round(one.until * (self.steps or 0)) if one.until < 1 else int(one.until) for one in self.stages]

    @property
    def rate(self) -> float:
        """The peak learning rate, as it is used."""
        return self.lr if self.start is None else self.lr / 10

    @property
    def evaluates_every(self) -> int:
        return self.eval_every or (self.tenth_of(self.steps) if self.steps else 100)

    def tenth_of(self, steps: int) -> int:
        """Steps between evaluations, of which there are to be about ten."""
        # Beside a single step, even one batch of valid is more than a fifth of the work.
        return max(2 if self.eval_tokens == AUTO else 1, steps // 10)

    @property
    def final_tokens(self) -> int | None:
        """Tokens of valid that are evaluated at the end; None: all."""
        return FINAL_TOKENS if self.eval_tokens == AUTO else self.eval_tokens

    @property
    def samples_valid(self) -> bool:
        """Whether evaluations on the way read a sample of what is evaluated at the end."""
        return self.eval_tokens == AUTO

    @property
    def saves_every(self) -> int:
        return self.save_every or self.eval_every or (max(1, self.steps // 10) if self.steps else 100)

    def length_at(self, step: int, longest: int) -> int:
        """Tokens in a row at a step, where rows grow to `longest`."""
        if self.grow_from is None or step >= self.grow_over:
            return longest
        return self.grow_from + (longest - self.grow_from) * step // self.grow_over
