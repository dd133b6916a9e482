"""Impossible pairs, refused when a model's config is made, naming both and the remedy.

Each family answers for its members; this file only knows which questions must agree.
"""

from __future__ import annotations

from sublayer.nn import layout as layouts
from sublayer.nn.embedding import Embedding, Head
from sublayer.nn.part import Part
from sublayer.nn.stack import Stack


def check_stack(stack: Stack.Config, dim: int, path: str, *, causal: bool, source: bool) -> None:
    """Raise ValueError naming the two and the remedy. `causal`: the model reads left to right; `source`: it has one."""
    for letter, part in stack.alphabet.items():
        where = f"{path}alphabet.{letter}"
        if letter not in stack.layout:
            continue
        if part.needs_source and not source:
            raise ValueError(f"{where}: {part.tag} needs a source, which only an encoder_decoder's decoder has")
        if part.attends and not part.needs_source and part.both_ways == causal:
            raise ValueError(
                f"{where}: {part.view} looks {'both ways' if causal else 'back only'}, but this stack reads "
                f"{'left to right' if causal else 'both ways'}; use {part.turned(causal)}, or another model"
            )
    for index, (letter, part) in enumerate(zip(layouts.expand(stack.layout), stack.parts, strict=True)):
        varies = any(key.startswith(f"{letter}.") for key in stack.vary)
        _check_part(part, index, stack, dim, f"{path}alphabet.{letter}" + (f" at layer {index}" if varies else ""))


def _check_part(part: Part.Config, index: int, stack: Stack.Config, dim: int, where: str) -> None:
    try:
        part.check(stack.slot(dim, index=index))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if not part.attends or part.needs_source:
        return
    position = stack.position
    if not part.honours(position):
        raise ValueError(
            f"{where}: {part.tag} does not use position={position.tag}, which acts inside attention; use a position "
            "that is added to the embedding (sinusoidal, learned), position=none, or a part that honours it"
        )
    head_dim, first = part.head_dim_in(dim), stack.head_dim(dim)
    if position.one_head_dim and head_dim is not None and head_dim != first:
        raise ValueError(
            f"{where}: {position.tag} has one table for all layers, but head sizes differ ({first} and {head_dim}); "
            "use one head_dim, or position=shaw, which has a table for each layer"
        )
    if part.both_ways and not position.both_ways:
        raise ValueError(
            f"{where}: {position.tag} knows distances to the past only, but {part.tag} looks both ways; "
            "use position=shaw or position=rotary"
        )


def check_head(head: Head.Config, vocab: int, dim: int, embedding: Embedding.Config) -> None:
    """Counting its parameters raises for a head that cannot be built on this embedding."""
    embedding.params(vocab, dim)
    head.params(vocab, dim, embedding)
