"""Several processes on one model, applied from outside: the loop asks the world and knows nothing of wrappers.

DDP copies the model, FSDP2 divides it; both average gradients, so that n processes with a batch of B/n rows each take
the steps that one takes with B. Checkpoints are whole: gathered by the first process, in the same files as one process
writes, so that any number of processes can resume from them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sublayer.nn.stack import Stack
from sublayer.nn.state import State


def started() -> int:
    """Number of processes that torchrun started together with this one; 1 if it did not start this one."""
    return int(os.environ.get("WORLD_SIZE", 1))


class World:
    """This process among those that train together; alone, if torchrun did not start it."""

    def __init__(self, device: str | None = None) -> None:
        self.device = find_device(device, int(os.environ.get("LOCAL_RANK", 0)))
        self.owner = started() > 1 and not dist.is_initialized()
        if self.owner:
            dist.init_process_group(dist.get_default_backend_for_device(self.device))
        self.restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
        self.rank, self.size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)

    @property
    def many(self) -> bool:
        return self.size > 1

    @property
    def main(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def wrap(self, module: Any, *, shard: bool) -> Any:
        if not self.many:
            return module
        if shard:
            return _divide(module, self.device, self.size)
        # Each process may leave out other parts (LayerDrop). Where none does, PyTorch warns of a small waste of time.
        return DistributedDataParallel(module, find_unused_parameters=True)

    def apart(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Gradients are not exchanged yet: more batches of the same step follow."""
        return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()

    def mean(self, value: Tensor) -> float:
        """Over all processes."""
        if not self.many:
            return float(value)
        total = value.detach().to(self.device, torch.float64, copy=True)
        dist.all_reduce(total)
        return float(total) / self.size

    def add_up(self, value: Tensor) -> None:
        """Replace it by its sum over all processes."""
        if self.many:
            dist.all_reduce(value)

    def agree(self, value: Any) -> Any:
        """The first process's value; for what depends on its clock or its files."""
        shared = [value]
        if self.many:
            dist.broadcast_object_list(shared, src=0)
        return shared[0]

    def whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Sharded tensors gathered, as plain ones on the CPU, for the first process; the others take part."""
        whole = {}
        # By name: what was read from a file may stand in another order in each process, and all must gather the same.
        for name in sorted(tensors):
            plain = self.plain(tensors[name].detach())
            if self.main:
                whole[name] = plain.cpu().contiguous()
        return whole

    def share(self, whole: Tensor, like: Tensor) -> Tensor:
        """This process's shard of a tensor, sharded as another one is."""
        if not _divided(like):
            return whole.to(like.device)
        from torch.distributed.tensor import distribute_tensor

        mesh, placements = like.device_mesh, like.placements  # pyright: ignore[reportAttributeAccessIssue]
        # Every process has read the whole, so nothing needs to be sent.
        return distribute_tensor(whole.to(self.device), mesh, placements, src_data_rank=None)

    def all_rows(self, state: State) -> State:
        """The state of all rows of the batch, gathered from the processes that carry some each."""
        return state.map(self._gather) if self.many else state

    def own_rows(self, state: State) -> State:
        """This process's rows of a state of all."""
        if not self.many:
            return state
        return state.map(lambda rows: rows.chunk(self.size)[self.rank].clone())

    def plain(self, tensor: Tensor) -> Tensor:
        return tensor.full_tensor() if _divided(tensor) else tensor  # pyright: ignore[reportAttributeAccessIssue]

    def wait(self) -> None:
        if self.many:
            dist.barrier()

    def leave(self) -> None:
        if self.owner and dist.is_initialized():
            dist.destroy_process_group()

    def _gather(self, rows: Tensor) -> Tensor:
        rows = rows.contiguous()
        parts = [torch.empty_like(rows) for _ in range(self.size)]
        dist.all_gather(parts, rows)
        return torch.cat(parts)


def _divided(tensor: Tensor) -> bool:
    """Whether it is a DTensor; to import that class takes a second, which only FSDP2 needs to spend."""
    return hasattr(tensor, "full_tensor")


def _divide(module: nn.Module, device: torch.device, size: int) -> Any:
    """FSDP2: each sublayer is put together while it runs; the rest (embedding, head, positions) for the whole pass."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    for name, parameter in module.named_parameters():
        if not parameter.dim():
            raise ValueError(
                f"train.shard=true: FSDP2 cannot divide {name.removeprefix('model.')}, which is a single number "
                "(rezero has them); leave train.shard out, so that each process has a copy of the model"
            )
    # The keys and values in the output are views, which FSDP2 warns of; they are detached before they are changed.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(device.type, (size,))
    for stack in [child for child in module.modules() if isinstance(child, Stack)]:
        for sublayer in stack.sublayers:
            fully_shard(sublayer, mesh=mesh)
            if stack.calls != "forward":
                register_fsdp_forward_method(sublayer, stack.calls)
    divided: Any = fully_shard(module, mesh=mesh)
    divided.set_reduce_scatter_unused_params(True)  # as find_unused_parameters in DDP
    divided.register_forward_hook(_fold)
    return divided


def _fold(module: Any, inputs: Any, output: Any) -> None:
    """Shard again after a pass without gradients: no backward pass does it, and `parameters()` would go on to show the
    gathered tensors instead of those that the optimiser has."""
    if not torch.is_grad_enabled():
        module.reshard()


def find_device(wanted: str | None, local: int = 0, key: str = "train.device") -> torch.device:
    """The wanted device, or an accelerator if there is one; of several on a machine, each process takes its own.

    key: named in messages.
    """
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    try:
        device = torch.device(wanted or accelerator or "cpu")
        if accelerator is not None and device.type == accelerator.type:
            device = torch.device(device.type, local) if device.index is None else device
            torch.accelerator.set_device_index(device.index)
        torch.empty(1, device=device).cpu()  # a device without memory (meta) refuses
    except (RuntimeError, AssertionError) as error:
        asked, reason = wanted or f"{accelerator}:{local}", str(error).splitlines()[0].rstrip(".")
        raise ValueError(
            f"{key}: {asked!r} cannot be used: {reason}. Leave it out, use cpu, or use fewer processes"
        ) from None
    return device
