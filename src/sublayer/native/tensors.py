"""Which tensors native code may read, and their addresses."""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode


def plain(x: Tensor) -> bool:
    """Whether it is a dense float32 array in the CPU's memory."""
    own = type(x) in (Tensor, nn.Parameter) and x.layout == torch.strided
    return own and x.dtype == torch.float32 and x.device.type == "cpu"


def watched() -> bool:
    """Whether PyTorch's operations are being compiled, traced, transformed or counted, so that all must be seen."""
    tracing = torch.jit.is_tracing()  # pyright: ignore[reportPrivateImportUsage]
    compiling = torch.compiler.is_compiling()
    return tracing or compiling or transformed() or _get_current_dispatch_mode() is not None


def transformed() -> bool:
    """Whether torch.func is active, which cannot transform autograd functions written by hand."""
    return torch._C._are_functorch_transforms_active()


@overload
def address(x: Tensor) -> int: ...
@overload
def address(x: None) -> None: ...
def address(x: Tensor | None) -> int | None:
    """None for no tensor. The caller must keep the tensor alive while the address is used."""
    return None if x is None else x.data_ptr()
