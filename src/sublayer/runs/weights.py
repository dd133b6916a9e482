"""A run's weights, checked against the model before they are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from sublayer.nn.model import Model
from sublayer.runs.run import Run
from sublayer.runs.wording import command

REMEDY = "use the version of Sublayer, and of your plug-ins, that it was trained with"


def weights_of(run: Run, step: int | None = None) -> dict[str, Tensor]:
    """Of a checkpoint, by default the last: the averaged weights, if there are any, else the trained ones."""
    checkpoint = run.checkpoint(step)
    if checkpoint is None:
        raise ValueError(f"{run.path}: no checkpoint yet; {command('resume', run.path)} goes on with the training")
    return checkpoint.tensors("average") or checkpoint.tensors("model") or {}


def load_weights(model: Model, weights: Mapping[str, Tensor], origin: Path) -> None:
    """Copy weights into a model once their names, shapes and types are checked. origin: named in messages."""
    check_tensors(weights, model.state_dict(), f"{origin}: its weights are not those of the model")
    model.load_state_dict(weights)


def check_tensors(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], wrong: str) -> None:
    """Raise ValueError where names, shapes or types differ. wrong: what the message begins with."""
    for name, like in expected.items():
        if name not in found:
            raise ValueError(f"{wrong} ({name} is missing); {REMEDY}")
        check_tensor(name, found[name], like.shape, like.dtype, wrong)
    if extra := sorted(found.keys() - expected.keys()):
        raise ValueError(f"{wrong} ({extra[0]} is not in it); {REMEDY}")


def check_tensor(name: str, found: Tensor, shape: torch.Size, dtype: torch.dtype, wrong: str) -> None:
    if found.shape != shape or found.dtype != dtype:
        raise ValueError(
            f"{wrong} ({name} is {_kind(found.shape, found.dtype)}, expected {_kind(shape, dtype)}); {REMEDY}"
        )


def _kind(shape: torch.Size, dtype: torch.dtype) -> str:
    sizes = "×".join(map(str, shape)) or "a single number"
    return f"{sizes} of {str(dtype).removeprefix('torch.')}"
