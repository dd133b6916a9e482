"""Impossible pairs, refused when a model's config is made: the one place that knows what does not go together."""

from __future__ import annotations

from sublayer.nn import layout as layouts
from sublayer.nn.attention import Cross, MultiHead
from sublayer.nn.attention.heads import Heads
from sublayer.nn.embedding import Embedding, Head
from sublayer.nn.memory import NoMemory
from sublayer.nn.part import Part
from sublayer.nn.position import RelativeKey, RelativeXL
from sublayer.nn.stack import Stack


def check_stack(stack: Stack.Config, dim: int, path: str, *, causal: bool, source: bool) -> None:
    """Raise ValueError naming the two and the remedy. `causal`: the model reads left to right; `source`: it has one."""
    for letter, part in stack.alphabet.items():
        where = f"{path}alphabet.{letter}"
        if isinstance(part, Cross.Config) and not source and letter in stack.layout:
            raise ValueError(f"{where}: cross-attention needs a source, which only an encoder_decoder's decoder has")
        if isinstance(part, MultiHead.Config) and part.pattern.causal != causal and letter in stack.layout:
            asked = "causal" if causal else "full"
            raise ValueError(
                f"{where}.pattern: {part.pattern.tag} looks {'both ways' if causal else 'back only'}, but this stack "
                f"reads {'left to right' if causal else 'both ways'}; use pattern={asked}, or another model"
            )
    for place, (letter, part) in enumerate(zip(layouts.expand(stack.layout), stack.parts, strict=True)):
        varies = any(key.startswith(f"{letter}.") for key in stack.vary)
        _check_part(part, stack, dim, f"{path}alphabet.{letter}" + (f" at place {place}" if varies else ""))


def _check_part(part: Part.Config, stack: Stack.Config, dim: int, where: str) -> None:
    if not isinstance(part, Heads.Config):
        return
    try:
        heads, _, head_dim = part.sizes(dim)
        if isinstance(part, MultiHead.Config):
            stack.position.check(dim, heads, head_dim)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if not isinstance(part, MultiHead.Config):
        return
    if isinstance(stack.position, RelativeKey.Config) and head_dim != stack.head_dim(dim):
        raise ValueError(
            f"{where}: relative_key has one table for all layers, but head sizes differ ({stack.head_dim(dim)} and "
            f"{head_dim}); use one head_dim, or position=shaw, which has a table for each layer"
        )
    if not part.pattern.causal and not isinstance(part.memory, NoMemory.Config):
        raise ValueError(
            f"{where}: a memory ({part.memory.tag}) carries the past on, but {part.pattern.tag} looks both ways; "
            "use memory=none, or a causal pattern"
        )
    if not part.pattern.causal and isinstance(stack.position, (RelativeXL.Config, RelativeKey.Config)):
        raise ValueError(
            f"{where}: {stack.position.tag} knows distances to the past only, but {part.pattern.tag} looks both ways; "
            "use position=shaw or position=rotary"
        )


def check_head(head: Head.Config, vocab: int, dim: int, embedding: Embedding.Config) -> None:
    """A head that cannot be built on this embedding says so while it is counted."""
    embedding.params(vocab, dim)
    head.params(vocab, dim, embedding)
