"""The files of a checkpoint: config.json, and safetensors whole or in shards. Pickle is never read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from sublayer.interop.huggingface.entries import CheckpointError, Entries

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")


def read_entries(folder: Path) -> Entries:
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: there is no such folder; give one with {CONFIG} and {WEIGHTS}")
    return Entries(_read_table(folder / CONFIG), folder / CONFIG)


def read_tensors(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """The file that lists the tensors, and the tensors by name, still backed by their files."""
    if (folder / WEIGHTS).exists():
        return folder / WEIGHTS, _load(folder / WEIGHTS)
    if (folder / INDEX).exists():
        return folder / INDEX, _load_shards(folder / INDEX)
    for name in PICKLES:
        if (folder / name).exists():
            raise CheckpointError(
                f"{folder / name}: a pickle can run code, so it is not read; where you trust it, load it with "
                f"transformers and save_pretrained(...), which writes {WEIGHTS}"
            )
    raise CheckpointError(f"{folder}: neither {WEIGHTS} nor {INDEX} is there; copy the weights beside {CONFIG}")


def write_files(folder: Path, values: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
    """Both files under temporary names, then renamed: a file is there whole or not at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder, prefix=".writing-") as aside:
            save_file(tensors, Path(aside) / WEIGHTS, metadata={"format": "pt"})
            (Path(aside) / CONFIG).write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")
            for name in (WEIGHTS, CONFIG):
                _sync(Path(aside) / name)
            for name in (WEIGHTS, CONFIG):
                os.replace(Path(aside) / name, folder / name)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder}: cannot be written: {error}; give a folder with room and permission") from None


def _sync(path: Path) -> None:
    """Flush to the disk, so that the rename cannot come before the content."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _load_shards(index: Path) -> dict[str, Tensor]:
    files = _read_table(index).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise CheckpointError(f"{index}: expected a table weight_map of tensor to file; save the checkpoint again")
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(files.values())):
        if Path(name).name != name:
            raise CheckpointError(f"{index}: the shard {name!r} is outside the folder; put it beside the index")
        tensors |= _load(index.parent / name)
    absent = [name for name in files if name not in tensors]
    if absent:
        raise CheckpointError(
            f"{index}: {absent[0]} is not in {files[absent[0]]}, where the index has it; copy it again"
        )
    return tensors


def _load(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file; copy the missing shard into the folder") from None
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({error}); copy or save it again") from None


def _read_table(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file; copy the checkpoint's {path.name} there") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON: {error}; copy or save it again") from None
    if not isinstance(table, dict):
        raise CheckpointError(f"{path}: expected a JSON table, got {type(table).__name__}; copy or save it again")
    return table
