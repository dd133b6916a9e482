"""Read and write a checkpoint: its config first, then its weights by the family's table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sublayer.interop.huggingface import weights
from sublayer.interop.huggingface.entries import CheckpointError
from sublayer.interop.huggingface.family import Family, family_for, family_of
from sublayer.interop.huggingface.files import read_entries, read_tensors, write_files
from sublayer.nn.model import Model, SingleStack

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def read(folder: str | os.PathLike[str]) -> SingleStack:
    """The model of a folder, in evaluation mode, in the dtype of its weights (the widest, if there are several)."""
    entries = read_entries(Path(folder))
    family = family_of(entries)
    config = family.take_config(entries)
    with torch.device("meta"):
        model = config.build()
    assert isinstance(model, SingleStack)
    table = weights.pairs(family.rows(config), model)
    path, found = read_tensors(Path(folder))
    shapes, blanks = weights.shapes(table, model), family.blanks(config)
    found = {name: tensor for name, tensor in found.items() if name in shapes or name not in blanks}
    tensors = _sort_out(path, found, shapes, family)
    model.load_state_dict(weights.to_ours(table, tensors, _dtype(path, tensors)), assign=True)
    return model.eval()


def read_config(folder: str | os.PathLike[str]) -> SingleStack.Config:
    """The config of a folder's model; its weights need not be there."""
    entries = read_entries(Path(folder))
    return family_of(entries).take_config(entries)


def write(model: Model, folder: str | os.PathLike[str], extra: Mapping[str, Any] | None = None) -> None:
    """Write config.json and model.safetensors, as transformers' `from_pretrained` takes them.

    extra: entries of config.json that a model here does not know, such as eos_token_id or max_position_embeddings.
    """
    if not isinstance(model, SingleStack):
        raise CheckpointError(
            f"model is a {type(model).__name__}, and the Hugging Face formats here hold one stack; write a decoder or "
            "an encoder"
        )
    family = family_for(model.config)
    values = family.give_config(model.config)
    tensors = weights.to_theirs(weights.pairs(family.rows(model.config), model), model)
    dtype = _dtype(Path(folder), tensors)
    blanks = {name: torch.zeros(shape, dtype=dtype) for name, shape in family.blanks(model.config).items()}
    ids = {f"{name}_token_id": None for name in ("bos", "eos", "pad")}
    known = {**values, "dtype": str(dtype).removeprefix("torch.")}
    for key in extra or {}:
        if key in known:
            raise CheckpointError(f"extra: {key} is written from the model itself, {known[key]!r}; leave it out")
    write_files(Path(folder), {**ids, **(extra or {}), **known}, blanks | tensors)


def _sort_out(
    path: Path, found: dict[str, Tensor], shapes: Mapping[str, tuple[int, ...]], family: Family
) -> dict[str, Tensor]:
    """The tensors the model is made of, by today's names; CheckpointError where the file and the config disagree."""
    tensors = {}
    for name, tensor in found.items():
        now = [other for other in family.today(name) if other in shapes and other not in found]
        tensors[now[0] if now else name] = tensor
    missing = [name for name in shapes if name not in tensors]
    if missing:
        raise CheckpointError(f"{path}: {_some(missing)} missing; save the checkpoint again, or correct config.json")
    for name, shape in shapes.items():
        has = tuple(tensors[name].shape)
        if has != shape:
            raise CheckpointError(f"{path}: {name} has shape {has}, expected {shape}; correct the sizes in config.json")
    extra = [name for name in tensors if name not in shapes and not _may_stay(path, name, tensors, family)]
    if extra:
        raise CheckpointError(f"{path}: {_some(extra)} of no use to the model; remove it, or correct config.json")
    return {name: tensors[name] for name in shapes}


def _may_stay(path: Path, name: str, tensors: Mapping[str, Tensor], family: Family) -> bool:
    """Whether a tensor of no use may be there all the same: a copy of another, or known to be left over."""
    source = tensors.get(family.ties.get(name, ""))
    if source is None:
        return family.is_spare(name)
    if tensors[name].shape != source.shape or not (tensors[name] == source).all():
        raise CheckpointError(
            f"{path}: {name} differs from {family.ties[name]}, to which it is tied; if it is a head of its own, set "
            "tie_word_embeddings to false in config.json"
        )
    return True


def _dtype(path: Path, tensors: Mapping[str, Tensor]) -> torch.dtype:
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS:
            raise CheckpointError(f"{path}: {name} is {tensor.dtype}, expected floats of 16, 32 or 64 bits; convert it")
    return reduce(torch.promote_types, (tensor.dtype for tensor in tensors.values()))


def _some(names: list[str]) -> str:
    """`a.weight is`, or `a.weight and 3 more are`."""
    return f"{names[0]} is" if len(names) == 1 else f"{names[0]} and {len(names) - 1} more are"
