"""A residual that depends on depth: sublayer n adds 1/√n of what its part gives."""

from torch import nn

from sublayer.nn.residual import LayerNorm, Norm, Residual


class Fading(Residual):
    class Config(Residual.Config, tag="fading"):
        norm: Norm.Config = LayerNorm.Config()

        def params(self, dim):
            return self.norm.params(dim)

        def entry(self):
            return self.norm

    def __init__(self, config, part, slot):
        super().__init__(config, part, slot)
        self.norm: nn.Module = config.norm.build(slot.dim)
        self.share = (slot.index + 1) ** -0.5

    @property
    def entry(self):
        return self.norm

    def join(self, x_BLD, y_BLD):
        return x_BLD + self.share * y_BLD
