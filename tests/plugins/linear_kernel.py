"""Linear attention with features elu(x) + 1 (Katharopoulos et al. 2020): constant state, work linear in length."""

import torch
from torch.nn import functional as F

from sublayer.nn.attention.kernel import Kernel

CHUNK = 32


def feature(x):
    return F.elu(x) + 1


class EluKernel(Kernel):
    """y_i = φ(q_i)ᵀ S_i / φ(q_i)ᵀ z_i, S_i = Σ_{j ≤ i} φ(k_j) v_jᵀ, z_i = Σ_{j ≤ i} φ(k_j)."""

    class Config(Kernel.Config, tag="elu_kernel"):
        own_state = True

        def check(self, pattern, memory, span):
            super().check(pattern, memory, span)
            if not pattern.causal:
                raise ValueError(f"kernel={self.tag} reads left to right, but pattern={pattern.tag} does not")

        def flops(self, load):
            length, head_dim = load.length, load.head_dim
            chunks = [min(CHUNK, length - start) for start in range(0, length, CHUNK)]
            near = sum(4 * head_dim * size * size for size in chunks)
            far = 2 * length * head_dim * (head_dim + 1)
            return load.heads * (near + far + 2 * length * head_dim * head_dim)

        def state_size(self, heads, groups, head_dim):
            return heads * head_dim * (head_dim + 1)

    def forward(self, q_BHLK, k_BGMK, v_BGMK, view, state=None):
        q, k, v = self._features(q_BHLK, k_BGMK, v_BGMK, view)
        sums, norms = self._start(q) if state is None else state
        written = []
        for here, keys, values in zip(*(x.split(CHUNK, dim=2) for x in (q, k, v)), strict=True):
            weights = (here @ keys.transpose(-1, -2)).tril()
            top = weights @ values + here @ sums
            bottom = weights.sum(-1, keepdim=True) + here @ norms
            written.append(top / bottom.clamp(min=1e-9))
            sums, norms = sums + keys.transpose(-1, -2) @ values, norms + keys.sum(2)[..., None]
        return torch.cat(written, dim=2), (sums, norms)

    def reference(self, q_BHLK, k_BGMK, v_BGMK, view, state=None):
        """Token after token, the sums written out."""
        q, k, v = self._features(q_BHLK, k_BGMK, v_BGMK, view)
        sums, norms = self._start(q) if state is None else state
        written = []
        for t in range(q.shape[2]):
            sums = sums + k[:, :, t, :, None] * v[:, :, t, None, :]
            norms = norms + k[:, :, t, :, None]
            written.append(q[:, :, t, None] @ sums / (q[:, :, t, None] @ norms).clamp(min=1e-9))
        return torch.cat(written, dim=2), (sums, norms)

    def _features(self, q_BHLK, k_BGMK, v_BGMK, view):
        """By query head; a padded key has no weight."""
        share = q_BHLK.shape[1] // k_BGMK.shape[1]
        k_BHMK, v_BHMK = (x.repeat_interleave(share, dim=1) for x in (feature(k_BGMK), v_BGMK))
        valid_BL = view.scene.valid_BL
        return feature(q_BHLK), k_BHMK if valid_BL is None else k_BHMK * valid_BL[:, None, :, None], v_BHMK

    def _start(self, q):
        B, H, _, K = q.shape
        return q.new_zeros(B, H, K, K), q.new_zeros(B, H, K, 1)
