"""One spelling for each model, so that two configs of the same model can be compared."""

from __future__ import annotations

from sublayer.interop.huggingface.entries import CheckpointError
from sublayer.nn.attention.heads import Heads
from sublayer.nn.feedforward import Dense, Glu
from sublayer.nn.model import SingleStack
from sublayer.nn.part import Part


def canonical(config: SingleStack.Config) -> SingleStack.Config:
    """The same model with layout (sf)xN, and without sizes that are the default's; CheckpointError if there is none."""
    stack = config.stack
    layers, odd = divmod(len(stack.varied), 2)
    pair = stack.varied[:2]
    if odd or stack.varied != pair * layers:
        varied = f" with {', '.join(stack.vary)} varied" if stack.vary else ""
        raise CheckpointError(
            f"layout {stack.layout!r}{varied}: Hugging Face's formats repeat one attention and one feed-forward, all "
            "layers alike; a stack with another layout cannot be written"
        )
    s, f = (_shortest(part, config.dim) for part in pair)
    stack = stack.but(vary={}, layout=f"(sf)x{layers}", alphabet={"s": s, "f": f})
    return config.but(stack=stack)


def _shortest(part: Part.Config, dim: int) -> Part.Config:
    if isinstance(part, Heads.Config):
        heads, groups, head_dim = part.sizes(dim)
        kv_heads = None if groups == heads else groups
        return part.but(kv_heads=kv_heads, head_dim=None if heads * head_dim == dim else head_dim)
    if isinstance(part, Dense.Config | Glu.Config):
        default = type(part)().width(dim)
        return part.but(inner=None if part.width(dim) == default else part.inner)
    return part
