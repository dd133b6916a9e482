"""Adaptive input: frequent words get wide vectors, rare words narrow ones."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.embedding.base import Embedding
from sublayer.nn.embedding.clusters import Clusters, Cutoffs, count, tables


class AdaptiveEmbedding(Embedding):
    """e(id) = P_c W_c[id − start_c], c the cluster of the id, W_c of width/factor^c columns (Baevski & Auli 2019, §3).

    With factor 1 and the model's width there is nothing to project, and one matrix holds all words: Transformer-XL
    base, whose clusters matter to its adaptive softmax only.

    Deviations from the paper: none in values. Every token passes every cluster's projection, as zeros where it is not
    of the cluster: a token's work is Σ width_c·D, at most factor/(factor−1) of the widest cluster's, and no shape
    depends on the data.
    """

    class Config(Embedding.Config, tag="adaptive"):
        cutoffs: Cutoffs
        """Where each cluster but the last ends, words sorted by falling frequency."""
        factor: PositiveInt = 4
        """Each cluster's width divided by the next one's."""
        width: PositiveInt | None = None
        """Width of the first cluster's vectors (Transformer-XL's d_embed); None: dim."""

        def clusters(self, vocab: int, dim: int) -> Clusters:
            return Clusters(vocab, dim, self.cutoffs, self.factor, self.width or dim)

        def check(self, vocab: int, dim: int) -> None:
            self.clusters(vocab, dim).check("embedding")

        def token_params(self, vocab: int, dim: int) -> int:
            clusters = self.clusters(vocab, dim)
            return count(clusters.words) + count(clusters.projections)

        def flops(self, vocab: int, dim: int, length: int) -> int:
            return 2 * length * count(self.clusters(vocab, dim).projections)

    def __init__(self, config: Config, vocab: int, dim: int) -> None:
        super().__init__(config, vocab, dim)
        self.clusters = config.clusters(vocab, dim)
        self.words = tables(self.clusters.words)
        self.projections = tables(self.clusters.projections)

    @property
    def cluster_tables(self) -> tuple[nn.ParameterList, nn.ParameterList]:
        return self.words, self.projections

    def look_up(self, ids_BL: Int[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        if len(self.words) == 1:
            x_BLE = F.embedding(ids_BL, self.words[0])
            return F.linear(x_BLE, self.projections[0]) if len(self.projections) else x_BLE
        x_BLE = torch.cat([self._cluster(c, ids_BL) for c in range(len(self.words))], dim=-1)
        return F.linear(x_BLE, torch.cat(list(self.projections), dim=1))

    def _cluster(self, c: int, ids_BL: Tensor) -> Tensor:
        """Vectors of the tokens in cluster c, zeros for the others.

        The first cluster has no lower end here and the last no upper one, so that an id outside all raises.
        """
        start, end = self.clusters.spans[c]
        mine_BL = ids_BL < end if c == 0 else ids_BL >= start
        if 0 < c < len(self.words) - 1:
            mine_BL = mine_BL & (ids_BL < end)
        return F.embedding(torch.where(mine_BL, ids_BL - start, 0), self.words[c]) * mine_BL[..., None]
