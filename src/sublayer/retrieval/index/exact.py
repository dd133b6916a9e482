"""Exact search: every key is compared with every query, a piece of the file after another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.retrieval.index.base import Index

QUERIES = 512
"""Queries compared at once: with a piece of keys, 32 MB of scores."""
STEP, PIECE = 1 << 11, 1 << 14
"""Keys multiplied at once, so that they and their scores stay in the cache; keys among which is chosen at once."""
BLOCK = 64
"""Keys of which the best alone is looked at first."""


class Exact(Index):
    """argmin_k |k|² − 2 q·k, which orders keys as |q − k|² does. It needs no file, and memory for one piece of keys."""

    class Config(Index.Config, tag="exact"):
        pass

    def search(self, queries_QD: Float[Tensor, "Q D"], count: int) -> Int[np.ndarray, "Q C"]:
        count = min(count, self.keys.count)
        found = [self._search(some_QD, count) for some_QD in queries_QD.split(QUERIES)]
        return torch.cat(found).numpy() if found else np.empty((0, count), np.int64)

    def _search(self, queries_QD: Tensor, count: int) -> Int[Tensor, "Q C"]:
        Q = len(queries_QD)
        best_QC, id_QC = torch.full((Q, count), torch.inf), torch.full((Q, count), -1, dtype=torch.int64)
        for first, scores_QP in self._scores(queries_QD):
            some_QC, at_QC = smallest(scores_QP, min(count, scores_QP.shape[1]), best_QC.amax(1))
            if some_QC.shape[1]:
                best_QC, chosen_QC = torch.cat([best_QC, some_QC], dim=1).topk(count, dim=1, largest=False)
                id_QC = torch.cat([id_QC, at_QC + first], dim=1).gather(1, chosen_QC)
        return id_QC

    def _scores(self, queries_QD: Tensor) -> Iterator[tuple[int, Float[Tensor, "Q P"]]]:
        """The number of the first key, and the scores of a piece of keys, which live until the next."""
        minus_two_QD, filled = -2 * queries_QD, 0
        out_QP = torch.empty(len(queries_QD), min(PIECE, self.keys.count))
        for first, keys_SD in self.keys.pieces(STEP):
            end = filled + len(keys_SD)
            scores_QS = torch.mm(minus_two_QD, keys_SD.T, out=out_QP[:, filled:end])
            scores_QS += torch.linalg.vecdot(keys_SD, keys_SD)
            filled = end
            if filled == PIECE or first + len(keys_SD) == self.keys.count:
                yield first + len(keys_SD) - filled, out_QP[:, :filled]
                filled = 0


def smallest(
    scores_QP: Float[Tensor, "Q P"], count: int, worst_Q: Float[Tensor, " Q"]
) -> tuple[Float[Tensor, "Q C"], Int[Tensor, "Q C"]]:
    """The smallest scores of each query, and which keys have them. `worst`: scores from there on may be left out."""
    P = scores_QP.shape[1]
    if P % BLOCK or count * BLOCK >= P:
        return scores_QP.topk(count, dim=1, largest=False)
    # The `count` smallest scores lie in the `count` blocks whose minima are smallest: few scores are sorted.
    blocks_QNB = scores_QP.unflatten(1, (-1, BLOCK))
    least_QN = blocks_QNB.amin(2)
    few = min(count, int((least_QN < worst_Q[:, None]).sum(1).max()))
    block_QF = least_QN.topk(few, dim=1, largest=False).indices
    some_QS = blocks_QNB.gather(1, block_QF[..., None].expand(-1, -1, BLOCK)).flatten(1)
    best_QC, at_QC = some_QS.topk(min(count, few * BLOCK), dim=1, largest=False)
    return best_QC, block_QF.gather(1, at_QC // BLOCK) * BLOCK + at_QC % BLOCK
