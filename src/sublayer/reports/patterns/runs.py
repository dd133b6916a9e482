"""Who sees whom in words: for each query its keys, as runs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sublayer.reports.patterns.cells import PAIRS, Seen


def runs(seen: Seen, length: int) -> list[str]:
    """For each query: `0-15 32 40-56:8` are the keys 0 to 15, 32, and 40, 48 and 56."""
    j_L, found = torch.arange(length), []
    for i_T in j_L.split(max(1, PAIRS // length)):
        seen_TL = seen(i_T[:, None], j_L).expand(len(i_T), length)
        found += [written(row.nonzero().flatten().tolist()) for row in seen_TL]
    return found


def written(keys: Sequence[int]) -> str:
    """Keys in ascending order as runs of equal steps; two keys at a distance are no run."""
    found, n = [], 0
    while n < len(keys):
        step = keys[n + 1] - keys[n] if n + 1 < len(keys) else 1
        end = n
        while end + 1 < len(keys) and keys[end + 1] - keys[end] == step:
            end += 1
        if end == n or (end == n + 1 and step > 1):
            found.append(str(keys[n]))
            n += 1
        else:
            found.append(f"{keys[n]}-{keys[end]}" + (f":{step}" if step > 1 else ""))
            n = end + 1
    return " ".join(found)
