"""EvaluationProtocol: how a text is read for scoring, chosen and checked before anything is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sublayer.evaluation.passes import Ids, Rows, lanes, windows
from sublayer.nn.layout import expand
from sublayer.nn.model import Model

AT_ONCE = 4096
"""Tokens read at once where that changes nothing."""


@dataclass(frozen=True)
class EvaluationProtocol:
    length: int
    """Tokens in a segment or a window."""
    stride: int
    """Tokens from the start of one window to the start of the next; the length, where they do not overlap."""
    carry: bool
    """Whether each segment has the state that the one before it left."""
    batch: int
    """Rows read at once."""

    def rows(self, ids_N: Ids) -> Iterator[Rows]:
        if self.carry:
            return lanes(ids_N, self.length, self.batch)
        return windows(ids_N, self.length, self.stride, self.batch)


def choose(
    model: Model,
    targets: int,
    *,
    length: int,
    batch: int | None = None,
    carry: bool | None = None,
    stride: int | None = None,
    memory: int | None = None,
) -> EvaluationProtocol:
    """How to read a text with so many targets; None: as the model was made for, and as quickly as changes nothing."""
    _check_model(model)
    for name, value in (("length", length), ("batch", batch), ("stride", stride)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value}: expected at least 1; use a larger one")
    if stride is not None:
        _check_stride(stride, length, carry, memory)
    if memory is not None:
        _check_memory(model.config, memory, carry)
    if carry is None:
        carry = stride is None and memory != 0 and model.config.carries
    batch = batch or (1 if carry else max(1, AT_ONCE // length))
    _check_positions(model.config, targets, length, -(-targets // batch) if carry else None)
    if carry:
        _check_bounded(model.config)
    return EvaluationProtocol(length, stride or length, bool(carry), batch)


def with_memory(model: Model, length: int) -> Model:
    """The same weights, not copied, in a model that remembers `length` tokens; memories that are shorter than another
    letter's stay as they are."""
    stack = model.config.stack
    used = {letter: part for letter, part in stack.alphabet.items() if letter in stack.layout}
    sizes = {letter: part.remembering(length) for letter, part in used.items() if part.remembering(length)}
    longest = max((used[letter].remembered for letter in sizes), default=0)
    sizes = {letter: some for letter, some in sizes.items() if used[letter].remembered == longest}
    config = model.config.but(
        {f"{letter}.{name}": value for letter, some in sizes.items() for name, value in some.items()}
    )
    slots = zip(expand(stack.layout), config.stack.parts, strict=True)
    if any(letter in sizes and part.remembered != length for letter, part in slots):
        raise ValueError(f"memory={length}: the layers' memories vary by more than length; leave memory out")
    with torch.random.fork_rng(devices=[]):  # weights that are drawn and dropped
        twin = config.build()
    twin.load_state_dict(model.state_dict(), assign=True)
    return twin


def _check_model(model: Model) -> None:
    if not model.config.writes or model.config.needs_source:
        raise ValueError(
            f"{model.config.tag}: a score is of the next token, which only a decoder predicts; an encoder's loss on "
            "valid is in its run's metrics (sublayer runs)"
        )
    if model.head.classes != model.config.vocab or not model.config.head.speaks:
        raise ValueError(
            f"head {model.config.head.tag}: has {model.head.classes} classes, expected the vocabulary of "
            f"{model.config.vocab}; a score is of the next token, use a head over words such as tied"
        )


def _check_stride(stride: int, length: int, carry: bool | None, memory: int | None) -> None:
    if stride > length:
        raise ValueError(
            f"stride={stride}: with windows of length={length} it would leave targets out; use a stride up to {length}"
        )
    if carry:
        raise ValueError(f"stride={stride}, carry=True: windows that overlap begin afresh; use one of the two")
    if memory is not None:
        raise ValueError(f"stride={stride}, memory={memory}: windows begin afresh; leave out one of the two")


def _check_memory(config: Model.Config, memory: int, carry: bool | None) -> None:
    if memory < 0:
        raise ValueError(f"memory={memory}: expected 0 (none) or more; use the number of tokens to remember")
    if memory and not config.carries:
        raise ValueError(
            f"memory={memory}: the model has no segment memory to be made longer or shorter; leave memory out, or use "
            "stride for more context"
        )
    if carry is not None and carry != bool(memory):
        raise ValueError(f"memory={memory}, carry={carry}: contradict each other; leave out one of the two")


def min_limit(config: Model.Config) -> int | None:
    """The fewest positions of any stack; None: no stack has a last position."""
    return config.end


def _check_positions(config: Model.Config, targets: int, length: int, lane: int | None) -> None:
    """Learned positions end somewhere."""
    limit = min_limit(config)
    if limit is None or (lane or min(length, targets)) <= limit:
        return
    if lane is None:
        raise ValueError(
            f"length={length}: the model has {limit} learned positions; use lengths up to {limit}, or a model with "
            "rotary or alibi positions, which have no end"
        )
    raise ValueError(
        f"carry: the text goes on to position {lane:,}, and the model has {limit} learned positions; use carry=False, "
        "or stride for more context"
    )


def _check_bounded(config: Model.Config) -> None:
    if any(getattr(part, "reach", 0) is None for part in config.stacks[""].parts):
        raise ValueError(
            "carry: the model's cache holds all it has read, so it would grow with the text; use stride for more "
            "context, or a model with a bounded memory (s.memory=segment, s.pattern=window)"
        )
