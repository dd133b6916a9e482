"""Adaptive softmax: choose among frequent words and clusters of rare ones; only then, within a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.embedding import cross_entropy
from sublayer.nn.embedding.base import Embedding, table
from sublayer.nn.embedding.clusters import Clusters, Cutoffs, count, maps_of, rows_of, tables
from sublayer.nn.embedding.head import Head


class AdaptiveSoftmax(Head):
    """p(w) = p(c | h)·softmax(W_c P_cᵀ h + b_c)_w for a word of tail c, p(w | h) among the first cluster's words
    and the tails (Grave et al. 2017, section 4).

    Untied, the first cluster sees h itself, the tails P_cᵀ h. Tied, every W_c is the embedding's and every cluster,
    the first too, sees h through a projection where the embedding has one (Transformer-XL).

    The loss forms a tail's scores for the tokens of that tail alone. How many those are is the data's, so `flops`
    counts the first cluster, which every token passes, and no tail. `forward` gives log-probabilities of all words.
    """

    class Config(Head.Config, tag="adaptive_softmax"):
        flops_depend_on_data = True

        cutoffs: Cutoffs
        """Where each cluster but the last ends, words sorted by falling frequency."""
        factor: PositiveInt = 4
        """Each cluster's width divided by the next one's; 1 for no projections."""
        tied: bool = False
        """Whether the word matrices are those of an adaptive embedding."""
        projection: Literal["shared", "tails", "own"] = "shared"
        """Tied: which projections are the embedding's too, transposed: all; all but the first, which is the head's own
        (Transformer-XL on WikiText-103, Large); or none (Transformer-XL on One Billion Word)."""
        bias: bool = True

        def clusters(self, vocab: int, dim: int, embedding: Embedding.Config) -> Clusters:
            shared = embedding.clusters(vocab, dim) if self.tied else None
            return shared or Clusters(vocab, dim, self.cutoffs, self.factor, dim)

        def check(self, vocab: int, dim: int, embedding: Embedding.Config) -> None:
            self.clusters(vocab, dim, embedding).check("head")
            if not self.tied:
                return
            shared = embedding.clusters(vocab, dim)
            if shared is None:
                raise ValueError(
                    f"head: adaptive_softmax can share the matrices of an adaptive embedding only, got "
                    f"{embedding.tag}; set head.tied=false, or use embedding adaptive with cutoffs {self.cutoffs}"
                )
            if (self.cutoffs, self.factor) != (shared.cutoffs, shared.factor):
                raise ValueError(
                    f"head: adaptive_softmax with cutoffs {self.cutoffs} and factor {self.factor} cannot share the "
                    f"matrices of an adaptive embedding with cutoffs {shared.cutoffs} and factor "
                    f"{shared.factor}; make them equal, or set head.tied=false"
                )

        def own_words(self, clusters: Clusters) -> list[tuple[int, int]]:
            return [] if self.tied else clusters.words

        def own_projections(self, clusters: Clusters) -> list[tuple[int, int]]:
            if not self.tied:
                return clusters.projections[1:]
            return clusters.own_projections[: {"shared": 0, "tails": 1, "own": None}[self.projection]]

        def params(self, vocab: int, dim: int, embedding: Embedding.Config) -> int:
            self.check(vocab, dim, embedding)
            clusters, tails = self.clusters(vocab, dim, embedding), len(self.cutoffs)
            bias = vocab + tails if self.bias else 0
            own = count(self.own_words(clusters)) + count(self.own_projections(clusters))
            return own + tails * clusters.width + bias

        def flops(self, vocab: int, dim: int, embedding: Embedding.Config, length: int) -> int:
            clusters = self.clusters(vocab, dim, embedding)
            project = count(clusters.projections[:1]) if self.tied else 0
            return 2 * length * (project + (self.cutoffs[0] + len(self.cutoffs)) * clusters.width)

    def __init__(self, config: Config, vocab: int, dim: int, embedding: Embedding) -> None:
        super().__init__(vocab, embedding if config.tied else None)
        self.config, self.clusters = config, config.clusters(vocab, dim, embedding.config)
        self.words = tables(config.own_words(self.clusters))
        self.projections = tables(config.own_projections(self.clusters))
        self.tails = table(len(config.cutoffs), self.clusters.width)
        self.tails_bias = nn.Parameter(torch.zeros(len(config.cutoffs))) if config.bias else None
        self.bias_V = nn.Parameter(torch.zeros(vocab)) if config.bias else None
        self.register_load_state_dict_pre_hook(_one_projection_to_all)

    def forward(
        self, h_BLD: Float[Tensor, "*BL D"], valid_BL: Bool[Tensor, "*BL"] | None = None
    ) -> Float[Tensor, "*BL V"]:
        first, *tails = [F.linear(self._see(h_BLD, map), weight, bias) for map, weight, bias in self._clusters()]
        first_BLV, tail_BLC = F.log_softmax(first, dim=-1).split([self.clusters.sizes[0], len(tails)], dim=-1)
        return torch.cat(
            [first_BLV, *(tail_BLC[..., c, None] + F.log_softmax(tails[c], dim=-1) for c in range(len(tails)))], dim=-1
        )

    def log_probs(
        self, h_BLD: Float[Tensor, "*BL D"], valid_BL: Bool[Tensor, "*BL"] | None = None
    ) -> Float[Tensor, "*BL V"]:
        return self(h_BLD, valid_BL)

    def mean_loss(
        self, h_ND: Float[Tensor, "N D"], target_N: Int[Tensor, " N"], weights_N: Tensor | None, smoothing: float
    ) -> Float[Tensor, ""]:
        if smoothing:  # needs the probability of every word for every token
            return super().mean_loss(h_ND, target_N, weights_N, smoothing)
        cluster_N, choice_N = self._choices(target_N)
        total = h_ND.new_zeros(())
        for c, (map, weight, bias) in enumerate(self._clusters()):
            h, target, weights = h_ND, choice_N, weights_N
            if c > 0:
                n = _indices(cluster_N == c)
                h, target = h_ND[n], target_N[n] - self.clusters.spans[c][0]
                weights = None if weights_N is None else weights_N[n]
            total = total + cross_entropy.of_linear(self._see(h, map), weight, bias, target, weights, reduction="sum")
        return total / cross_entropy.weight_of(target_N, weights_N)

    def each_loss(self, h_ND: Float[Tensor, "N D"], target_N: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        (map, weight, bias), *tails = self._clusters()
        cluster_N, choice_N = self._choices(target_N)
        loss_N = self._each_in(map, weight, bias, h_ND, choice_N)
        for c, (map, weight, bias) in enumerate(tails, start=1):
            n = _indices(cluster_N == c)
            within = self._each_in(map, weight, bias, h_ND[n], target_N[n] - self.clusters.spans[c][0])
            loss_N = loss_N.index_add(0, n, within)
        return loss_N

    def _each_in(self, map: Tensor | None, weight: Tensor, bias: Tensor | None, h: Tensor, target: Tensor) -> Tensor:
        return cross_entropy.each(lambda h: F.linear(self._see(h, map), weight, bias), len(weight), h, target)

    def _choices(self, target_N: Tensor) -> tuple[Tensor, Tensor]:
        """The cluster of each target, and which of the first one's words and tails is to be chosen for it."""
        cluster_N = torch.stack([target_N >= cut for cut in self.config.cutoffs]).sum(0)
        return cluster_N, torch.where(cluster_N > 0, self.config.cutoffs[0] + cluster_N - 1, target_N)

    def _see(self, h: Tensor, map: Tensor | None) -> Tensor:
        return h if map is None else h @ map

    def _clusters(self) -> list[tuple[Tensor | None, Tensor, Tensor | None]]:
        """Projection, matrix and bias of each cluster; the first one's end with the tails' rows."""
        sizes = self.clusters.sizes
        first, *rest = self._rows()
        biases: list[Tensor | None] = [None] * len(sizes)
        if self.bias_V is not None and self.tails_bias is not None:
            first_bias, *rest_bias = self.bias_V.split(sizes)
            biases = [torch.cat([first_bias, self.tails_bias]), *rest_bias]
        return list(zip(self._maps(), [torch.cat([first, self.tails]), *rest], biases, strict=True))

    def _rows(self) -> Sequence[Tensor]:
        return rows_of(self.embedding.cluster_tables[0] if self.config.tied else self.words, self.clusters)

    def _maps(self) -> Sequence[Tensor | None]:
        if not self.config.tied:
            return [None, *(self.projections if len(self.projections) else [None] * len(self.tails))]
        shared = maps_of(self.embedding.cluster_tables[1], self.clusters)
        if self.config.projection == "own":
            return maps_of(self.projections, self.clusters)
        return [*self.projections, *shared[len(self.projections) :]]


def _indices(mine_N: Tensor) -> Tensor:
    """Indices of True. The meta device has no values: there no token belongs to a tail, as in `flops`."""
    return mine_N.new_empty(0, dtype=torch.long) if mine_N.is_meta else mine_N.nonzero().squeeze(1)


def _one_projection_to_all(head: AdaptiveSoftmax, weights: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Checkpoints from when all clusters of one width shared the head's own projection: each cluster gets a copy."""
    names = [f"{prefix}projections.{c}" for c in range(len(head.projections))]
    if [name in weights for name in names[:2]] == [True, False] and head.config.factor == 1:
        weights |= {name: weights[names[0]].clone() for name in names[1:]}
