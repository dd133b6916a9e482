"""Cost: parameters and work, counted from a config without building anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Flops:
    """Matmul work of one forward pass for one row, 2 per multiply-add; causal attention counts its full rectangle."""

    length: int
    """New tokens."""
    memory: int
    """Tokens in the memory."""
    embedding: int
    stack: int
    head: int
    frozen_stack: int
    """The stack's work if the memory holds keys and values instead of hidden states."""

    @property
    def total(self) -> int:
        return self.embedding + self.stack + self.head


@dataclass(frozen=True)
class Cost:
    """Parameters by where they sit; tied tensors are counted once, with the tokens."""

    tokens: int
    positions: int
    stack: int
    final_norm: int
    head: int
    flops: Flops

    @property
    def params(self) -> int:
        return self.tokens + self.positions + self.stack + self.final_norm + self.head

    @property
    def decoder_params(self) -> int:
        return self.stack + self.final_norm

    def dump(self) -> dict[str, Any]:
        data = asdict(self)
        data["flops"]["total"] = self.flops.total
        return {"params": self.params, "decoder_params": self.decoder_params, **data}
