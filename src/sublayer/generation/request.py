"""GenerationRequest: what a caller asks a model to write, checked in one place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from sublayer.generation.prompts import Prompts, Rows, listed, read_row
from sublayer.generation.stop import Stop, Stops, sequences
from sublayer.nn.model import Model
from sublayer.runs.wording import plural


@dataclass(frozen=True)
class GenerationRequest:
    """Up to `tokens` ids after each prompt, by a model that can write them."""

    model: Model
    prompts: Prompts
    source: Prompts | None
    """What a model that needs a source reads first, a row for each prompt."""
    tokens: int
    stops: Stops

    @classmethod
    def of(
        cls,
        model: nn.Module,
        prompts: Rows,
        tokens: int,
        stop: Iterable[Stop] = (),
        eos: int | None = None,
        source: Rows | None = None,
    ) -> GenerationRequest:
        model = _checked(model)
        vocab, device = model.config.vocab, next(model.parameters()).device
        begun = Prompts.of("prompts", prompts, vocab, device)
        _check_length(model, begun.length, tokens)
        ends = tuple(tuple(read_row("stop", end, vocab)) for end in sequences(stop, eos))
        return cls(model, begun, _source(model, source, len(begun.rows), device), tokens, ends)


def _checked(model: nn.Module) -> Model:
    if not isinstance(model, Model) or not model.config.writes:
        kind = type(model).__name__
        raise ValueError(f"model: {kind} does not write from left to right; use a decoder or an encoder_decoder")
    vocab = model.config.vocab
    if model.head.classes != vocab or not model.config.head.speaks:
        raise ValueError(
            f"model: its head, {model.config.head.tag}, does not score the {vocab} ids of the vocabulary; "
            "use head tied, linear, mixture or adaptive_softmax"
        )
    return model


def _check_length(model: Model, prompt: int, tokens: int) -> None:
    """Some positions end. The last id is written and never read, so it needs none."""
    if tokens < 0:
        raise ValueError(f"tokens: {tokens} is no number of ids to write; use 0 or more")
    position = model.config.writer.position
    if position.end is not None and prompt + tokens - 1 > position.end:
        raise ValueError(
            f"tokens: a prompt of {prompt} and {tokens} ids more need {prompt + tokens - 1} positions, but "
            f"position={position.tag} has {position.end}; ask for at most {max(0, position.end + 1 - prompt)}, or "
            "shorten the prompt"
        )


def _source(model: Model, source: Rows | None, rows: int, device: torch.device) -> Prompts | None:
    kind = model.config.tag
    if not model.config.needs_source:
        if source is not None:
            raise ValueError(f"source: a {kind} reads no source; put its ids into the prompts")
        return None
    if source is None:
        raise ValueError(f"source: {kind} needs a source; give source=, a row of ids for each prompt")
    if len(given := listed("source", source)) != rows:
        raise ValueError(f"source: {plural(len(given), 'row')} for {plural(rows, 'prompt')}; give one each")
    return Prompts.of("source", given, model.config.source_ids, device, left=False)
