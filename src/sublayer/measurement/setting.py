"""Setting: what is measured, and with what."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import Field

from sublayer.nn.config import Config, ConfigError, Count
from sublayer.nn.model import Decoder, Model

Task = Literal["segment", "prefill", "token"]


class Setting(Config, tag="setting"):
    """Eval mode, no gradients, fp32."""

    task: Task = "segment"
    """segment: read `length` tokens after `memory` remembered ones, and score them. prefill: read a prompt of `length`
    and score the token after it. token: write one more token after `length`."""
    length: Annotated[Count, Field(le=2**20)] = 64
    """Tokens: of the segment, of the prompt, or before the one that is written."""
    memory: Annotated[int, Field(ge=0, le=2**20)] | None = None
    """Tokens that a segment remembers; null: as many as the model keeps of earlier segments, none if it keeps all."""
    frozen: bool = False
    """Whether remembered hidden states were turned into keys and values before (Transformer-XL)."""
    batch: Annotated[Count, Field(le=2**16)] = 1
    threads: Annotated[Count, Field(le=1024)] | None = None
    """Processor threads; null: one for each core this process may use."""
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
        """Refuse what this model cannot do."""
        if self.task != "prefill" and not isinstance(config, Decoder.Config):
            raise ConfigError(f"task={self.task}: {config.tag} models do not go on from what they read; use prefill")
        last = self.length + self.remembered(config) + (STEPS if self.task == "token" else 0)
        for stack in config.stacks.values():
            limit = getattr(stack.position, "limit", None)
            if limit is not None and last > limit:
                raise ConfigError(
                    f"length={self.length}: {last} places are read, and the model has {limit} learned positions; use "
                    "a smaller length or memory, or position.limit"
                )


STEPS = 32
"""Tokens that are written after a prompt before it is read anew."""
_LINUX = hasattr(os, "sched_getaffinity")
