"""A stack that runs its sublayers twice: weights are shared by depth (Lan et al. 2020), states are not."""

from sublayer.nn.stack import Plain


class Twice(Plain):
    class Config(Plain.Config, tag="twice"):
        def flops(self, dim, work):
            return 2 * super().flops(dim, work)

        def state_size(self, dim, work):
            return 2 * super().state_size(dim, work)

    @property
    def order(self):
        return [*self.sublayers, *self.sublayers]
