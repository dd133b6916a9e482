"""Setting: what is measured, and on what."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import Field

from sublayer.nn.config import Config, ConfigError, Count
from sublayer.nn.model import Model

Task = Literal["segment", "prefill", "token"]


class Setting(Config, tag="setting"):
    """Eval mode, no gradients, fp32."""

    task: Task = "segment"
    """segment: read `length` tokens after `memory` remembered ones, and score them. prefill: read a prompt of `length`
    tokens and score the next one. token: generate one token after `length`."""
    length: Annotated[Count, Field(le=2**20)] = 64
    """Tokens of the segment, of the prompt, or before the generated one."""
    memory: Annotated[int, Field(ge=0, le=2**20)] | None = None
    """Tokens remembered before a segment; null: as many as the model's memory holds, 0 if it is unbounded."""
    frozen: bool = False
    """Whether remembered hidden states are turned into keys and values before the pass (Transformer-XL)."""
    batch: Annotated[Count, Field(le=2**16)] = 1
    threads: Annotated[Count, Field(le=1024)] | None = None
    """Processor threads; null: one for each core that this process may use."""
    device: str = "cpu"

    def resolved(self) -> Setting:
        """With the default number of threads filled in."""
        return self if self.threads else self.but(threads=len(os.sched_getaffinity(0)) if _LINUX else os.cpu_count())

    def remembered(self, config: Model.Config) -> int:
        """Tokens before the segment, for a model."""
        if self.task != "segment":
            return 0
        return max(stack.remembered for stack in config.stacks.values()) if self.memory is None else self.memory

    def check(self, config: Model.Config) -> None:
        """Refuse a task or a length that this model cannot have."""
        if self.task != "prefill" and (not config.writes or config.needs_source):
            raise ConfigError(f"task={self.task}: {config.tag} models do not continue a text; use prefill")
        last = self.length + self.remembered(config) + (STEPS if self.task == "token" else 0)
        if config.end is not None and last > config.end:
            raise ConfigError(
                f"length={self.length}: {last} tokens are read, and the model has {config.end} positions; use a "
                "smaller length or memory, or a larger position.limit"
            )
        config.check_length(last)


STEPS = 32
"""Tokens generated after a prompt before it is read again."""
_LINUX = hasattr(os, "sched_getaffinity")
