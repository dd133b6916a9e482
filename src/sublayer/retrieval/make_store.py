"""Building a store: a model reads a text, and leaves for each token the key of its context.

A build that was killed goes on where its last checkpoint was, to the same bits: batches are cut as before, and the
state of a model that carries one is in the checkpoint.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sublayer.data import Tokenizer, Tokens
from sublayer.data.mapped import dtype_for
from sublayer.evaluation.counts import end_of
from sublayer.evaluation.passes import Rows
from sublayer.evaluation.protocol import EvaluationProtocol, choose, with_memory
from sublayer.evaluation.scoring import read_ids, reading
from sublayer.nn.model import Model
from sublayer.nn.state import State
from sublayer.retrieval import facts
from sublayer.retrieval.facts import StoreFacts, StoreRequest
from sublayer.retrieval.identity import model_hash
from sublayer.retrieval.index import Index, best_index
from sublayer.retrieval.key_vectors import best_place, check_place, reading_keys
from sublayer.retrieval.make_index import OnPhase, make_index
from sublayer.retrieval.store import Store
from sublayer.retrieval.writer import KeyWriter
from sublayer.runs import checkpoint, sealed_json
from sublayer.runs.checkpoint import Checkpoint
from sublayer.runs.structure import put_together, take_apart

SAVED_EVERY = 1 << 16
"""Entries between two checkpoints."""
DTYPES = ("float16", "float32")


@dataclass(frozen=True)
class Source:
    """The model and the text that a store is built from, with what its facts say of them."""

    model: Model
    tokenizer: Tokenizer
    run: str
    step: int
    tokens: Tokens
    title: str
    split: str


def build(
    source: Source,
    folder: Path | str,
    *,
    length: int,
    key: str | None = None,
    dtype: str = "float16",
    index: Index.Config | None = None,
    stride: int | None = None,
    memory: int | None = None,
    batch: int | None = None,
    limit: int | None = None,
    on_phase: OnPhase = lambda phase, done, total: None,
) -> Store:
    """Build a store in a folder, or go on with it; or give another index to one that is finished.

    index: inverted lists if not given, where their library is installed, else exact search.
    length, stride, memory, batch, limit: how the text is read, as in `evaluation.score`. key: which vector; that of the
    paper if not given, where the model has it.
    """
    index, path = index or best_index(), Path(folder)
    index.check()
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    ids_N = read_ids(source.tokens, limit)
    how = {"length": length, "stride": stride, "memory": memory}
    protocol = choose(source.model, len(ids_N) - 1, batch=batch, **how)
    if protocol.carry and protocol.batch > 1:
        raise ValueError(f"batch={batch}: a memory goes through the text in one row, in its order; leave batch out")
    place = best_place(source.model) if key is None else check_place(source.model, key)
    request = _request(source, ids_N, protocol, place, dtype, memory)
    files = (facts.REQUEST, facts.FACTS, facts.INDEX, facts.INDEX_FACTS)
    with sealed_json.held(path, "building this store", files):
        sealed_json.ask(path / facts.REQUEST, request.dump(), "datastore", free=facts.MOVES)
        if not (path / facts.FACTS).exists():
            reader = with_memory(source.model, memory) if memory else source.model
            _write_keys(reader, ids_N, protocol, request, path, on_phase)
        shutil.rmtree(path / facts.CHECKPOINTS, ignore_errors=True)
        make_index(path, index, on_phase)
    return Store.open(path)


def _request(
    source: Source, ids_N: np.ndarray, protocol: EvaluationProtocol, place: str, dtype: str, memory: int | None
) -> StoreRequest:
    part = source.tokens.part
    read = len(part.bytes) if len(ids_N) == len(source.tokens) else end_of(source.tokens, len(ids_N), source.tokenizer)
    return StoreRequest(
        model=model_hash(source.model),
        run=source.run,
        step=source.step,
        tokenizer=source.tokenizer.hash,
        vocab=source.tokenizer.vocab,
        text=part.text.key,
        title=source.title,
        split=source.split,
        start=part.start,
        stop=part.start + read,
        entries=len(ids_N) - 1,
        key=place,
        dim=source.model.config.dim,
        dtype=dtype,
        length=protocol.length,
        stride=protocol.stride,
        carry=protocol.carry,
        batch=protocol.batch,
        memory=memory,
    )


def _write_keys(
    model: Model, ids_N: np.ndarray, protocol: EvaluationProtocol, request: StoreRequest, path: Path, on_phase: OnPhase
) -> None:
    made, saved = path / facts.CHECKPOINTS, _last(path / facts.CHECKPOINTS)
    notes = None if saved is None else saved.notes
    writer = KeyWriter(path, request.dtype, dtype_for(request.vocab), request.dim * np.dtype(request.dtype).itemsize)
    every = max(1, SAVED_EVERY // (protocol.batch * protocol.stride))
    try:
        writer.open(notes)
        done = 0 if notes is None else notes["batches"]
        state = None if saved is None else _carried(saved)
        with reading(model), reading_keys(model, request.key) as keys:  # pyright: ignore[reportArgumentType]
            for rows in islice(protocol.rows(ids_N), done, None):
                h_BLD, state = _pass(model, rows, state if protocol.carry else None)
                targets_BS = rows.targets_BS
                assert int(rows.first_B[0]) == writer.entries + 1, "entries are in the order of the text"
                writer.add(keys(h_BLD[:, -targets_BS.shape[1] :]).flatten(0, 1), targets_BS.flatten().numpy())
                done += 1
                on_phase("reading the text", writer.entries, request.entries)
                if done % every == 0:
                    state = _save(made, writer, done, state if protocol.carry else None)
        crc32 = writer.notes()["crc32"]
    finally:
        writer.close()
    assert writer.scale is not None
    StoreFacts(**request.dump(), scale=writer.scale, crc32=crc32).write(path / facts.FACTS)


def _pass(model: Model, rows: Rows, state: State | None) -> tuple[Tensor, State]:
    device = next(model.parameters()).device
    return model(rows.inputs_BL.to(device), None if rows.fresh else state)


def _save(folder: Path, writer: KeyWriter, done: int, state: State | None) -> State | None:
    """Write a checkpoint in place of the one before; the state as a build that goes on from it has it."""
    carried, tensors = None, {}
    if state is not None:
        state = state.map(_copy)
        carried, tensors["carried"] = take_apart(state)
    try:
        made = Checkpoint.write(folder, done, {**writer.notes(), "batches": done, "carried": carried}, **tensors)
    except ValueError as error:
        raise ValueError(str(error).replace("resume the run", "repeat the command: it goes on")) from error
    for one in _checkpoints(folder):
        if one.step != made.step:
            one.remove()
    return state


def _last(folder: Path) -> Checkpoint | None:
    """The last checkpoint that is whole."""
    if folder.is_dir():
        checkpoint.sweep(folder)
    for one in reversed(_checkpoints(folder)):
        try:
            one.verify()
        except ValueError:
            continue
        return one
    return None


def _checkpoints(folder: Path) -> list[Checkpoint]:
    names = [path for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    return sorted((Checkpoint(path) for path in names), key=lambda one: one.step)


def _carried(saved: Checkpoint) -> State | None:
    carried, tensors = saved.notes["carried"], saved.tensors("carried")
    if carried is None or tensors is None:
        return None
    return put_together(carried, {name: _copy(tensor) for name, tensor in tensors.items()})


def _copy(tensor: Tensor) -> Tensor:
    """Laid out anew, in a stopped build as in one that goes on: vector code may round by the layout."""
    return tensor.clone(memory_format=torch.contiguous_format)
