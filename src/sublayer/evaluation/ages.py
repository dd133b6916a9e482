"""Attention by age: how much of it goes to keys by how far back they stand, as in Rae et al. 2019, figure 2.

Where a key stands for several tokens, as the slots of a compressed memory do, its age is theirs, and fewer keys share
what that age gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from sublayer.data import Tokens
from sublayer.evaluation.passes import Ids
from sublayer.evaluation.protocol import choose
from sublayer.evaluation.scoring import OnBatch, read_ids, read_rows, reader_of, reading
from sublayer.nn.attention import Kernel
from sublayer.nn.attention.kernel import View
from sublayer.nn.model import Model
from sublayer.nn.position.base import distances

BINS = 24
"""Ages that are told apart, at most."""


@dataclass(frozen=True)
class AgeBin:
    first: int
    """The youngest age in it: tokens between query and key."""
    last: int
    mass: float
    """Share of the attention that its keys get, mean over queries, heads and layers."""
    keys: float
    """Number of its keys that a query sees, in the mean."""

    @property
    def weight(self) -> float:
        """What one key gets."""
        return self.mass / self.keys if self.keys else 0.0

    def dump(self) -> dict[str, Any]:
        return {**asdict(self), "weight": self.weight}


def by_age(
    model: Model,
    tokens: Tokens | Ids,
    *,
    length: int,
    batch: int | None = None,
    carry: bool | None = None,
    memory: int | None = None,
    limit: int | None = None,
    on_batch: OnBatch | None = None,
) -> list[AgeBin]:
    """Attention by age in bins of equal width, the youngest first. Options as in `score`."""
    ids_N = read_ids(tokens, limit)
    protocol = choose(model, len(ids_N) - 1, length=length, batch=batch, carry=carry, memory=memory)
    reader = reader_of(model, memory)
    held = max(stack.remembered for stack in reader.config.stacks.values()) if protocol.carry else 0
    tally = _Tally(-(-(held + protocol.length) // BINS))
    with reading(reader), tally.listening(reader):
        for _ in read_rows(reader, ids_N, protocol, on_batch):
            pass
    return tally.bins()


class _Tally:
    def __init__(self, width: int) -> None:
        self.width, self.queries = width, 0
        self.mass, self.keys = torch.zeros(2, BINS, dtype=torch.float64)

    def add(self, kernel: Any, given: tuple[Any, ...]) -> None:
        """A kernel's hook: what it is called with."""
        q_BHLK, k_BGMK, _, view = given[:4]
        weights_BHLM = kernel.attention_weights(q_BHLK, k_BGMK, view)
        if weights_BHLM is None:
            return
        age_BLM = distances(view.scene, view.remembered).expand(len(q_BHLK), -1, -1)
        bin_BLM = (age_BLM.clamp(min=0) // self.width).clamp(max=BINS - 1).flatten().cpu()
        for sums, each_BHLM in ((self.mass, weights_BHLM), (self.keys, _seen(view, weights_BHLM))):
            sums += torch.bincount(bin_BLM, each_BHLM.double().mean(1).flatten().cpu(), BINS)
        self.queries += q_BHLK.shape[0] * q_BHLK.shape[2]

    @contextmanager
    def listening(self, model: Model) -> Iterator[None]:
        handles = [
            module.register_forward_pre_hook(self.add) for module in model.modules() if isinstance(module, Kernel)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def bins(self) -> list[AgeBin]:
        """Without the oldest ages, where no key ever stood."""
        if not self.queries:
            raise ValueError("ages: no attention of this model forms weights by a softmax; leave it out")
        mass, keys = (self.mass / self.queries).tolist(), (self.keys / self.queries).tolist()
        used = max(n for n in range(BINS) if keys[n]) + 1
        return [AgeBin(n * self.width, (n + 1) * self.width - 1, mass[n], keys[n]) for n in range(used)]


def _seen(view: View, weights_BHLM: Tensor) -> Tensor:
    """1 where a query may see a key."""
    ones_BHLM = torch.ones_like(weights_BHLM)
    if view.sight.causal:
        return ones_BHLM.tril()
    return ones_BHLM if view.sight.mask_BHLM is None else ones_BHLM * view.sight.mask_BHLM
