"""Whether a module has hooks: then fast paths must not bypass its call."""

from torch import nn
from torch.nn.modules import module as modules


def hooked(*seen: nn.Module) -> bool:
    """Whether a call of any of them is more than the `forward` of its class."""
    return bool(modules._has_any_global_hook()) or any(_hooked(module) for module in seen)


def _hooked(module: nn.Module) -> bool:
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    own = "forward" in vars(module) or type(module).__call__ is not nn.Module.__call__
    return bool(hooks or module._compiled_call_impl) or own
