"""Slots that are the tokens to which most attention was paid."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from sublayer.nn.config import Count
from sublayer.nn.memory.compressor.base import Compressor


class MostUsed(Compressor):
    """Of each group·rate tokens, the `group` with the largest attention mass stay, unchanged (Rae et al. 2019, section
    3.2).

    The paper chooses among all tokens that one segment pushes out; here a group has a fixed size, so that the segments'
    lengths matter less. A slot stands at its token's own position.
    """

    class Config(Compressor.Config, tag="most_used"):
        by_usage = True
        group: Count = 16
        """Tokens that stay of group·rate."""

        @property
        def slots(self) -> int:
            return self.group

    def forward(self, x_NTD: Float[Tensor, "N T D"], usage_NT: Float[Tensor, "N T"] | None) -> Float[Tensor, "N S D"]:
        assert usage_NT is not None
        return x_NTD.take_along_dim(self.chosen(usage_NT)[..., None], dim=1)

    def chosen(self, usage_NT: Float[Tensor, "N T"]) -> Int[Tensor, "N S"]:
        # A stable order: of tokens used alike, the earlier one stays, in any batch.
        best_NS = usage_NT.argsort(dim=1, descending=True, stable=True)[:, : self.config.slots]
        return best_NS.sort(dim=1).values
