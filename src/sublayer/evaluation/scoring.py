"""Scoring: the probability that a model gives to each token of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Float64, Integer
from torch import Tensor, nn

from sublayer.data import Tokenizer, Tokens
from sublayer.evaluation.counts import count
from sublayer.evaluation.passes import Ids, Rows
from sublayer.evaluation.protocol import EvaluationProtocol, choose, with_memory
from sublayer.evaluation.scorer import Scorer
from sublayer.evaluation.scores import Score
from sublayer.nn.model import Model
from sublayer.runs.wording import plural

OnBatch = Callable[[int, int], object]
"""Called with how many targets are scored, and how many there are."""


def score(
    model: Model,
    tokens: Tokens | Ids,
    *,
    length: int,
    batch: int | None = None,
    carry: bool | None = None,
    stride: int | None = None,
    memory: int | None = None,
    limit: int | None = None,
    tokenizer: Tokenizer | None = None,
    scorer: Scorer | None = None,
    on_batch: OnBatch | None = None,
) -> Score:
    """How well a model predicts a text: every token after the first, each once.

    By default the text is cut into segments of `length`, and each begins afresh; or, where the model has a segment
    memory, each attends to what that holds of those before (`carry`). stride: windows of `length` that overlap, each so
    far from the one before, and scored in their last `stride` targets only, so that each has a context of at least
    length − stride + 1; dear, and the best score for models without memory.

    memory: tokens to remember, if not as many as the model was trained with; 0 for none. limit: score so many targets
    from the beginning. tokenizer: the text's, to count exactly what was scored (see `counts`). batch: rows read at
    once, which changes nothing but speed; except that with `carry` the text is divided among them, and each begins
    without memory. None: as many as are quick, one with `carry`. scorer: what gives the nats of the targets, if not the
    model's head alone.
    """
    ids_N = read_ids(tokens, limit)
    protocol = choose(model, len(ids_N) - 1, length=length, batch=batch, carry=carry, stride=stride, memory=memory)
    reader, nats = reader_of(model, memory), 0.0
    with reading(reader):
        for _, nats_BS in read_rows(reader, ids_N, protocol, on_batch, scorer):
            nats += float(nats_BS.sum(dtype=torch.float64))
    targets = len(ids_N) - 1
    return Score(nats, targets, *count(tokens if isinstance(tokens, Tokens) else ids_N, targets, tokenizer))


def by_position(
    model: Model,
    tokens: Tokens | Ids,
    *,
    length: int,
    batch: int | None = None,
    carry: bool | None = None,
    memory: int | None = None,
    limit: int | None = None,
    on_batch: OnBatch | None = None,
) -> Float64[np.ndarray, " L"]:
    """Mean loss at each position of a segment, in nats: how much a model gains from context. Options as in `score`.

    A text shorter than `length` has fewer positions.
    """
    ids_N = read_ids(tokens, limit)
    targets = len(ids_N) - 1
    protocol = choose(model, targets, length=length, batch=batch, carry=carry, memory=memory)
    nats_L, count_L = torch.zeros(2, min(length, targets), dtype=torch.float64)
    reader = reader_of(model, memory)
    with reading(reader):
        for rows, nats_BL in read_rows(reader, ids_N, protocol, on_batch):
            here = nats_BL.shape[1]
            nats_L[:here] += nats_BL.sum(0, dtype=torch.float64).cpu()
            count_L[:here] += (rows.targets_BS != -100).sum(0)
    return (nats_L / count_L)[count_L > 0].numpy()


def by_length(
    model: Model,
    tokens: Tokens | Ids,
    lengths: Sequence[int],
    *,
    batch: int | None = None,
    carry: bool | None = None,
    stride: int | None = None,
    memory: int | None = None,
    limit: int | None = None,
    tokenizer: Tokenizer | None = None,
    on_batch: OnBatch | None = None,
) -> dict[int, Score]:
    """The score of the same targets in segments of each length: what becomes of a model beyond the length it was
    trained with. Options as in `score`; a length that cannot be is refused before any is tried."""
    if not lengths:
        raise ValueError("lengths: none given; use at least one, such as [128, 256, 512]")
    targets = len(read_ids(tokens, limit)) - 1
    for length in lengths:
        choose(model, targets, length=length, batch=batch, carry=carry, stride=stride, memory=memory)

    def overall(n: int) -> OnBatch:
        return lambda done, total: on_batch and on_batch(n * total + done, len(lengths) * total)

    of = partial(
        score, model, tokens, batch=batch, carry=carry, stride=stride, memory=memory, limit=limit, tokenizer=tokenizer
    )
    return {length: of(length=length, on_batch=overall(n)) for n, length in enumerate(lengths)}


def read_ids(tokens: Tokens | Ids, limit: int | None = None) -> Integer[np.ndarray, " beginning"]:
    """What is to be read: a text, or the beginning of one that has `limit` targets."""
    name, ids_N = (tokens.name, tokens.ids) if isinstance(tokens, Tokens) else ("tokens", np.asarray(tokens))
    if ids_N.ndim != 1 or not np.issubdtype(ids_N.dtype, np.integer):
        raise ValueError(f"{name}: expected ids in one row, got {ids_N.dtype} of shape {ids_N.shape}; flatten them")
    if limit is not None and limit < 1:
        raise ValueError(f"limit={limit}: expected at least 1 target; leave it out to score all")
    if len(ids_N) < 2:
        raise ValueError(f"{name}: {plural(len(ids_N), 'token')}, at least 2 are needed to predict one; use more text")
    return ids_N if limit is None else ids_N[: limit + 1]


def reader_of(model: Model, memory: int | None) -> Model:
    """The model, remembering so many tokens."""
    return with_memory(model, memory) if memory else model


def read_rows(
    model: Model,
    ids_N: Ids,
    protocol: EvaluationProtocol,
    on_batch: OnBatch | None,
    scorer: Scorer | None = None,
) -> Iterator[tuple[Rows, Float[Tensor, "B S"]]]:
    """Rows, and the nats of each of their targets; 0 where there is none."""
    device = next(model.parameters()).device
    done, state = 0, None
    with (scorer or Scorer()).on(model) as nats:
        for rows in protocol.rows(ids_N):
            h_BLD, state = model(rows.inputs_BL.to(device), state if protocol.carry and not rows.fresh else None)
            yield rows, nats(h_BLD[:, -rows.targets_BS.shape[1] :], rows)
            done += rows.count
            if on_batch:
                on_batch(done, len(ids_N) - 1)


@contextmanager
def reading(model: nn.Module) -> Iterator[None]:
    """In eval mode and without gradients; afterwards every module is in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
