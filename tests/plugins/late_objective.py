"""A training objective: the next token, but only in the second half of each segment, where there is context."""

import torch

from sublayer.objectives import NextToken


class LateTokens(NextToken):
    class Config(NextToken.Config, tag="late_tokens"):
        pass

    def loss(self, h_BLD, batch):
        late_L = torch.arange(h_BLD.shape[1], device=h_BLD.device) >= h_BLD.shape[1] // 2
        targets_BL = batch.targets_BL.masked_fill(~late_L, -100) if self.training else batch.targets_BL
        return self.model.head.loss(h_BLD, targets_BL, batch.weights_BL, self.smoothing)
