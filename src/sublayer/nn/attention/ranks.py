"""Real tokens of ragged rows put side by side: a row's tokens are counted without padding, from where its last
unfinished block began."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.scene import Scene


@dataclass(frozen=True)
class Ranks:
    done_B: Int[Tensor, " B"]
    """Blocks that each row finished before this segment."""
    begun_B: Int[Tensor, " B"]
    """Tokens of the block that it had begun."""
    count_B: Int[Tensor, " B"]
    """Those, and the real tokens of the segment."""
    at_BL: Int[Tensor, "B L"]
    """Where each token of the segment stands among them; `width` on padding."""
    width: int
    """Room for them, in whole blocks."""

    @classmethod
    def of(cls, scene: Scene, stride: int, batch: int) -> Ranks:
        valid_BL = torch.ones_like(scene.i_BL, dtype=torch.bool) if scene.valid_BL is None else scene.valid_BL
        valid_BL, past = valid_BL.expand(batch, -1), scene.past_valid_BP
        before_B = valid_BL.new_full((batch,), scene.start, dtype=torch.long) if past is None else past.sum(1)
        before_B = before_B.expand(batch)
        done_B, begun_B = before_B // stride, before_B % stride
        count_B = begun_B + valid_BL.sum(1)
        width = max(1, -(-int(count_B.max()) // stride)) * stride
        at_BL = (begun_B[:, None] + valid_BL.cumsum(1) - 1).masked_fill(~valid_BL, width)
        return cls(done_B, begun_B, count_B, at_BL, width)

    def spread(
        self, x_BHLK: Float[Tensor, "B H L K"], begun_BHTK: Float[Tensor, "B H T K"] | None = None
    ) -> Float[Tensor, "B H W K"]:
        """The tokens of each row side by side, after those of the block that it had begun; then zeros."""
        B, H, _, K = x_BHLK.shape
        room_BHWK = x_BHLK.new_zeros(B, H, self.width + 1, K)
        room_BHWK = room_BHWK.scatter(2, self._index(self.at_BL, x_BHLK), x_BHLK)[:, :, :-1]
        if begun_BHTK is None or not begun_BHTK.shape[2]:
            return room_BHWK
        earlier_BT = torch.arange(begun_BHTK.shape[2], device=x_BHLK.device) < self.begun_B[:, None]
        T = begun_BHTK.shape[2]
        first_BHTK = torch.where(earlier_BT[:, None, :, None], begun_BHTK, room_BHWK[:, :, :T])
        return torch.cat([first_BHTK, room_BHWK[:, :, T:]], dim=2)

    def collect(self, y_BHWK: Float[Tensor, "B H W K"]) -> Float[Tensor, "B H L K"]:
        """Back to where the tokens were; what padding gets has no meaning."""
        return y_BHWK.gather(2, self._index(self.at_BL.clamp(max=self.width - 1), y_BHWK))

    def store(
        self, past_BHnK: Tensor, blocks_BHNK: Tensor, x_BHWK: Tensor, stride: int, each: int = 1
    ) -> tuple[Float[Tensor, "B H m K"], Float[Tensor, "B H T K"]]:
        """Each row's finished blocks, `each` vectors for one, with those of this segment, and the tokens of the one
        that it has begun."""
        now_B = self.count_B // stride
        most, rest = int((self.done_B + now_B).max()) * each, int((self.count_B % stride).max())
        n_N = torch.arange(blocks_BHNK.shape[2], device=x_BHWK.device)
        to_BN = torch.where(n_N < now_B[:, None] * each, self.done_B[:, None] * each + n_N, most)
        room_BHnK = F.pad(past_BHnK, (0, 0, 0, max(0, most + 1 - past_BHnK.shape[2])))
        done_BHnK = room_BHnK.scatter(2, self._index(to_BN, blocks_BHNK), blocks_BHNK)[:, :, :most]
        t_BT = now_B[:, None] * stride + torch.arange(rest, device=x_BHWK.device)
        return done_BHnK, x_BHWK.gather(2, self._index(t_BT.clamp(max=self.width - 1), x_BHWK))

    def finished(self, blocks: int, each: int = 1) -> Bool[Tensor, "B n"]:
        """Which of the blocks stored earlier are the row's own, for `each` vectors of each."""
        return torch.arange(blocks * each, device=self.done_B.device) < self.done_B[:, None] * each

    @staticmethod
    def _index(at_BL: Tensor, like_BHLK: Tensor) -> Tensor:
        return at_BL[:, None, :, None].expand(-1, like_BHLK.shape[1], -1, like_BHLK.shape[3])
