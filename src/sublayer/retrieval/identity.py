"""Which model a store belongs to."""

from __future__ import annotations

import hashlib

import torch

from sublayer.nn.model import Model


def model_hash(model: Model) -> str:
    """sha256 of the config and of every weight: the same only for a model that gives the same keys."""
    digest = hashlib.sha256(model.config.hash.encode())
    for name, tensor in sorted(model.state_dict().items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
