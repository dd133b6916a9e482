"""Centroids: the means of spherical k-means, which follow in training what is nearest to them."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.native.tensors import transformed
from sublayer.nn.attention.buckets import without_autocast


class Centroids(nn.Module):
    """μ_c = m_c/|m_c| for each head, moved between steps of training by the vectors x that were nearest to them, all of
    length √K:

        m_c ← λ m_c + (1 − λ) C/n Σ_{x nearest to μ_c} x/√K

    with C centroids and n vectors in the step (Roy et al. 2021, section 4.1; Σ there is not divided by n). The first m
    are random and as heavy as one step, so that centroids are the mean of all steps until these are about 1/(1 − λ).
    A centroid that was nearest to nothing in a step is put on a vector of that step, beginning with those that are far
    from all; the paper leaves it where it is.

    The means are part of checkpoints. Nothing moves in evaluation, nor within a step: what a step collects is summed
    over processes, then applied by `after_step`. A stack that computes activations twice collects everything twice,
    which changes nothing, since C/n Σ stays the same.
    """

    mean_HCK: Tensor

    def __init__(self, heads: int, count: int, size: int, decay: float) -> None:
        super().__init__()
        self.decay = decay
        random_HCK = torch.randn(heads, count, size)
        self.register_buffer("mean_HCK", F.normalize(random_HCK, dim=-1) * (1 - decay))
        # Of the steps since the last `after_step`; no buffers, since a checkpoint is taken between steps.
        self._collected: tuple[Tensor, Tensor, Tensor] | None = None

    def forward(self, x_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H C L"]:
        """The cosine of each vector with each centroid. In float32 at least: another cluster changes who sees whom."""
        dtype = torch.promote_types(x_BHLK.dtype, torch.float32)
        with without_autocast(x_BHLK):
            unit_HCK = F.normalize(self.mean_HCK.to(dtype), dim=-1) * x_BHLK.shape[-1] ** -0.5
            return unit_HCK @ x_BHLK.detach().to(dtype).transpose(-1, -2)

    @torch.no_grad()
    def collect(
        self,
        x_BHLK: Float[Tensor, "B H L K"],
        near_BHL: Float[Tensor, "B H L"],
        cluster_BHL: Int[Tensor, "B H L"],
        valid_BL: Bool[Tensor, "#B L"] | None,
    ) -> None:
        """Vectors that a step of training has assigned to clusters, and how near they are; padding is left out."""
        if not self.training or x_BHLK.is_meta or transformed():
            return
        (H, C, K), (B, _, L, _) = self.mean_HCK.shape, x_BHLK.shape
        x_HNK = x_BHLK.to(torch.promote_types(self.mean_HCK.dtype, torch.float32)).transpose(0, 1).flatten(1, 2)
        at_HN = cluster_BHL.transpose(0, 1).flatten(1) + torch.arange(H, device=x_HNK.device)[:, None] * C
        near_HN, count = near_BHL.transpose(0, 1).flatten(1), B * L
        if valid_BL is not None:
            padding_N = ~valid_BL.expand(B, -1).flatten()
            at_HN, near_HN = at_HN.masked_fill(padding_N, H * C), near_HN.masked_fill(padding_N, torch.inf)
            count -= int(padding_N.sum())
        # One row more than there are centroids, for padding.
        sum_ZK = x_HNK.new_zeros(H * C + 1, K).index_add_(0, at_HN.flatten(), x_HNK.flatten(0, 1))
        sum_HCK, some_HCK = sum_ZK[:-1].view(H, C, K), x_HNK.new_zeros(H, C, K)
        if count and not sum_HCK.any(-1).all():
            # From the farthest to the nearest: what has no centroid yet, and parts of what has one.
            nth_C = torch.arange(C, device=x_HNK.device) * count // C
            some_HC1 = near_HN.argsort(dim=-1, stable=True)[:, nth_C, None]
            some_HCK = x_HNK.gather(1, some_HC1.expand(-1, -1, K))
        new = sum_HCK, sum_HCK.new_tensor(float(count)), some_HCK
        old = self._collected
        self._collected = new if old is None else (old[0] + new[0], old[1] + new[1], old[2] + new[2])

    @property
    def sums(self) -> tuple[Tensor, ...]:
        """What a step has collected, to be added up where several processes share its rows."""
        return self._collected or ()

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Called by the trainer, with the number of steps taken."""
        if self._collected is None:
            return
        (sum_HCK, count, some_HCK), self._collected = self._collected, None
        if not count:
            return
        given_HCK = sum_HCK * (self.mean_HCK.shape[1] * self.mean_HCK.shape[2] ** -0.5 / count)
        mean_HCK = self.decay * self.mean_HCK + (1 - self.decay) * given_HCK
        moved_HCK = (1 - self.decay) * F.normalize(some_HCK, dim=-1)
        self.mean_HCK.copy_(torch.where(sum_HCK.any(-1, keepdim=True), mean_HCK, moved_HCK))
