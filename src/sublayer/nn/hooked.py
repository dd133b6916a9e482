"""Whether somebody listens at a module: then it must be called, not gone around."""

from torch import nn


def hooked(*modules: nn.Module) -> bool:
    """Whether a call of any of them is more than its `forward`."""
    return any(_hooked(module) for module in modules)


def _hooked(module: nn.Module) -> bool:
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    return bool(hooks or module._compiled_call_impl) or type(module).__call__ is not nn.Module.__call__
