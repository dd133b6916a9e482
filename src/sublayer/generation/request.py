"""GenerationRequest: what is asked of a model, checked in one place; one line says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from sublayer.generation.prompts import Prompts, Rows, listed, read_row
from sublayer.generation.stop import Stop, Stops, sequences
from sublayer.nn.model import Decoder, EncoderDecoder
from sublayer.nn.position import Learned
from sublayer.runs.wording import plural

Writer = Decoder | EncoderDecoder


@dataclass(frozen=True)
class GenerationRequest:
    """Up to `tokens` ids after each prompt, by a model that can write them."""

    model: Writer
    prompts: Prompts
    source: Prompts | None
    """What an encoder-decoder reads first, a row for each prompt."""
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
        writer = _writer(model)
        vocab, device = writer.config.vocab, next(writer.parameters()).device
        begun = Prompts.of("prompts", prompts, vocab, device)
        _check_length(writer, begun.length, tokens)
        ends = tuple(tuple(read_row("stop", end, vocab)) for end in sequences(stop, eos))
        return cls(writer, begun, _source(writer, source, len(begun.rows), device), tokens, ends)


def _writer(model: nn.Module) -> Writer:
    if not isinstance(model, (Decoder, EncoderDecoder)):
        kind = type(model).__name__
        raise ValueError(f"model: {kind} does not write from left to right; use a decoder or an encoder_decoder")
    vocab = model.config.vocab
    if model.head.classes != vocab or not model.config.head.speaks:
        raise ValueError(
            f"model: its head, {model.config.head.tag}, does not score the {vocab} ids of the vocabulary; "
            "use head tied, linear, mixture or adaptive_softmax"
        )
    return model


def _check_length(model: Writer, prompt: int, tokens: int) -> None:
    """Learned positions end. The last id is written and never read, so it needs no place."""
    if tokens < 0:
        raise ValueError(f"tokens: {tokens} is no number of ids to write; use 0 or more")
    position = (model.decoder if isinstance(model, EncoderDecoder) else model.stack).position
    if isinstance(position, Learned) and prompt + tokens - 1 > position.limit:
        raise ValueError(
            f"tokens: a prompt of {prompt} and {tokens} ids more go past place {position.limit}, where learned "
            f"positions end; ask for at most {max(0, position.limit + 1 - prompt)}, or shorten the prompt"
        )


def _source(model: Writer, source: Rows | None, rows: int, device: torch.device) -> Prompts | None:
    if isinstance(model, Decoder):
        if source is not None:
            raise ValueError("source: a decoder reads no source; put its ids into the prompts")
        return None
    if source is None:
        raise ValueError("source: an encoder-decoder writes about a source; give source=, a row of ids for each prompt")
    if len(given := listed("source", source)) != rows:
        raise ValueError(f"source: {plural(len(given), 'row')} for {plural(rows, 'prompt')}; give one each")
    return Prompts.of("source", given, model.config.source_vocab or model.config.vocab, device, left=False)
