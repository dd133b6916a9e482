"""A memory of two levels: every earlier token, and slots that training writes (Sukhbaatar et al. 2019, persistent
vectors). An auxiliary loss keeps the slots small."""

from dataclasses import replace

import torch
from torch import nn

from sublayer.nn.config import Count
from sublayer.nn.memory import Attended, Memory, first_segment


class TwoLevel(Memory):
    class Config(Memory.Config, tag="two_level"):
        count: Count = 3
        """Slots that are learned."""
        loss: float = 1e-3
        """Weight of the mean square of the slots."""

        def params(self, slot, groups, head_dim):
            return 2 * groups * self.count * head_dim

        def slots(self, tokens):
            return tokens + self.count

    def __init__(self, config, slot, groups, head_dim):
        super().__init__(config, slot, groups, head_dim)
        self.k_GSK = nn.Parameter(0.5 * torch.randn(groups, config.count, head_dim))
        self.v_GSK = nn.Parameter(0.5 * torch.randn(groups, config.count, head_dim))

    def step(self, new, state, scene, limit):
        k, v = new.own()
        tokens = first_segment(k, v, scene, limit) if state is None else state.attend(k, v, scene, limit)
        k, v = (
            torch.cat([own.expand(len(k), -1, -1, -1), past], dim=2)
            for own, past in ((self.k_GSK, tokens.k_BGMK), (self.v_GSK, tokens.v_BGMK))
        )
        if self.training:
            scene.add_loss("slots", self.config.loss * (self.k_GSK.square().mean() + self.v_GSK.square().mean()))
        earlier = tokens.k_BGMK.shape[2] - scene.length
        return Attended(k, v, tokens.state, self._seen(scene, earlier), tokens.table)

    def _seen(self, scene, earlier):
        """The slots stand before the first token, in a row; they are never padding."""
        if scene.even and earlier == scene.start:
            return scene  # all tokens are there, so the slots' positions are the ones before theirs anyway
        i_BM, valid_BM = scene.positions(earlier), scene.valid(earlier)
        valid_BM = torch.ones_like(i_BM, dtype=torch.bool) if valid_BM is None else valid_BM
        before = torch.arange(-self.config.count, 0, device=i_BM.device).expand(len(i_BM), -1)
        past_i = torch.cat([before, i_BM[:, :earlier]], dim=1)
        past_valid = torch.cat([torch.ones_like(before, dtype=torch.bool), valid_BM[:, :earlier]], dim=1)
        valid_BL = valid_BM[:, earlier:]
        return replace(scene, valid_BL=valid_BL, past_i_BP=past_i, past_valid_BP=past_valid, _once={})
