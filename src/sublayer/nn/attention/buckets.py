"""Where hashing puts tokens: buckets, ranks within them, and chunks; and what is stored of earlier tokens."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.nn.state import Growing, PartState

LABELS = 2**29
"""Labels of all buckets together: few enough that twice as many fit in 32 bits."""


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def draw_buckets(x_BHLK: Float[Tensor, "B H L K"], w_FK: Float[Tensor, "F K"], rounds: int) -> Int[Tensor, "B H R L"]:
    """argmax([xR; −xR]) in each round; in float32 at least, since a bucket that differs changes who sees whom."""
    dtype = torch.promote_types(x_BHLK.dtype, torch.float32)
    with without_autocast(x_BHLK):
        xr_BHLRF = (x_BHLK.detach().to(dtype) @ w_FK.to(dtype).T).unflatten(-1, (rounds, -1))
    return torch.cat([xr_BHLRF, -xr_BHLRF], dim=-1).argmax(-1).transpose(2, 3)


@dataclass(frozen=True)
class Grid:
    """Buckets of a round, tokens of a chunk, and whether chunks are counted among earlier tokens alone.

    A token's code is bucket · span + order, `order` being its rank in the bucket (causal), or its index in the sorted
    text. code // chunk is its label: where that of a query is greater than that of a key by 0 … reach, the tokens share
    a bucket, and the key's chunk is the query's or one of the `reach` before it.
    """

    buckets: int
    chunk: int
    causal: bool
    reach: int = 1
    """Chunks that a query sees before its own."""

    @property
    def span(self) -> int:
        """Codes of a bucket; with 32 buckets and chunks of 64 tokens, a bucket has room for a billion tokens."""
        return self.chunk * (LABELS // (self.buckets + 2))

    @property
    def padding(self) -> int:
        """Code of padding, which sorts last and is in nobody's bucket."""
        return (self.buckets + 1) * self.span

    @property
    def seen(self) -> int:
        """Tokens of a bucket that a later query may see."""
        return (self.reach + 1) * self.chunk

    def labels(self, code: Tensor) -> Tensor:
        return (code // self.chunk).int()

    def codes(
        self, bucket_BHRL: Int[Tensor, "B H R L"], valid_BL: Tensor | None, count_BHRn: Tensor | None
    ) -> tuple[Int[Tensor, "B H R L"], Int[Tensor, "B H R n"]]:
        """Of each token; and how many tokens there are in each bucket by now."""
        if valid_BL is not None:
            bucket_BHRL = bucket_BHRL.masked_fill(~valid_BL[:, None, None], self.buckets)
        sorted_BHRL, order_BHRL = bucket_BHRL.sort(dim=-1, stable=True)
        index_BHRL = torch.arange(bucket_BHRL.shape[-1], device=bucket_BHRL.device).expand_as(bucket_BHRL)
        many_BHRn = bucket_BHRL.new_zeros(*bucket_BHRL.shape[:3], self.buckets + 1)
        many_BHRn = many_BHRn.scatter_add(-1, bucket_BHRL, torch.ones_like(bucket_BHRL))
        after_BHRn = many_BHRn[..., :-1] if count_BHRn is None else many_BHRn[..., :-1] + count_BHRn
        if self.causal:
            # Where the bucket would begin in the sorted text, were its earlier tokens there.
            first_BHRn = many_BHRn.cumsum(-1) - many_BHRn
            if count_BHRn is not None:
                first_BHRn[..., :-1] -= count_BHRn
            index_BHRL = index_BHRL - first_BHRn.gather(-1, sorted_BHRL)
        code_BHRL = torch.empty_like(bucket_BHRL).scatter_(-1, order_BHRL, sorted_BHRL * self.span + index_BHRL)
        return code_BHRL.masked_fill_(bucket_BHRL == self.buckets, self.padding), after_BHRn

    def alive(self, code_BHRM: Int[Tensor, "B H R M"], count_BHRn: Int[Tensor, "B H R n"]) -> Tensor:
        """Whether the next token of its bucket would see a token."""
        bucket_BHRM = (code_BHRM // self.span).clamp(max=self.buckets - 1)
        next_BHRM = bucket_BHRM * self.span + count_BHRn.gather(-1, bucket_BHRM)
        return (next_BHRM // self.chunk - code_BHRM // self.chunk).abs() <= self.reach


@dataclass(frozen=True)
class Hashed(PartState):
    """Keys, values and codes of earlier tokens, of which those that nobody will see are dropped now and then; and for
    each bucket which of them its last tokens are."""

    k: Growing
    v: Growing
    code: Growing
    """(B, H, M, R)"""
    slot_BHRT: Tensor
    """Where a bucket's last tokens are among those stored, by bucket and by rank modulo those that can be seen; −1:
    there is none. The last slot is for all that is no more seen."""
    count_BHRn: Tensor
    """Tokens that each bucket has had."""

    @classmethod
    def empty(cls, k_BHLK: Tensor, v_BHLK: Tensor, rounds: int, grid: Grid) -> Hashed:
        B, H = k_BHLK.shape[:2]
        code = torch.empty(B, H, 0, rounds, dtype=torch.long, device=k_BHLK.device)
        count = code.new_zeros(B, H, rounds, grid.buckets)
        slot = code.new_full((B, H, rounds, grid.buckets * grid.seen + 1), -1)
        return cls(Growing.of(k_BHLK[:, :, :0], 2), Growing.of(v_BHLK[:, :, :0], 2), Growing.of(code, 2), slot, count)

    @property
    def rounds(self) -> int:
        return self.count_BHRn.shape[2]

    @staticmethod
    def most(rounds: int, grid: Grid) -> int:
        """Tokens that can be alive in some round."""
        return rounds * grid.buckets * grid.seen

    @staticmethod
    def stored(tokens: int, rounds: int, grid: Grid) -> int:
        """Of so many, if none was dropped before."""
        most = Hashed.most(rounds, grid)
        return tokens if tokens <= 2 * most else most

    def after(self, k_BHLK: Tensor, v_BHLK: Tensor, code_BHRL: Tensor, count_BHRn: Tensor, grid: Grid) -> Hashed:
        """With the tokens of a segment."""
        before = len(self.k)
        k, v, code = self.k.append(k_BHLK), self.v.append(v_BHLK), self.code.append(code_BHRL.transpose(2, 3))
        most = self.most(self.rounds, grid)
        if len(k) <= 2 * most:
            slot_BHRT = _entered(self.slot_BHRT, code_BHRL, count_BHRn, before, grid)
            return Hashed(k, v, code, slot_BHRT, count_BHRn)
        code_BHRM = code.value.transpose(2, 3)
        last_BHM = grid.alive(code_BHRM, count_BHRn).any(2).int().argsort(dim=-1, stable=True)[..., -most:]
        # In the order of the text, as all that is stored.
        last_BHM1 = last_BHM.sort(dim=-1).values[..., None]
        k, v, code = (
            Growing.of(x.value.gather(2, last_BHM1.expand(-1, -1, -1, x.value.shape[-1])), 2) for x in (k, v, code)
        )
        nothing = torch.full_like(self.slot_BHRT, -1)
        slot_BHRT = _entered(nothing, code.value.transpose(2, 3), count_BHRn, 0, grid)
        return Hashed(k, v, code, slot_BHRT, count_BHRn)


def _entered(slot_BHRT: Tensor, code_BHRL: Tensor, count_BHRn: Tensor, before: int, grid: Grid) -> Tensor:
    """Slots with tokens that stand after `before` others. Of those that would share a slot, only the last is alive."""
    index_BHRL = torch.arange(before, before + code_BHRL.shape[-1], device=code_BHRL.device).expand_as(code_BHRL)
    at_BHRL = code_BHRL // grid.span * grid.seen + code_BHRL % grid.span % grid.seen
    spare = slot_BHRT.shape[-1] - 1
    return slot_BHRT.scatter(-1, at_BHRL.masked_fill(~grid.alive(code_BHRL, count_BHRn), spare), index_BHRL)
