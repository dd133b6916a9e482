"""Key vectors: which vector of a model stands for a context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from sublayer.nn.model import Model
from sublayer.nn.part_input import last_feedforward, watching

KeyPlace = Literal["feedforward", "final"]
"""feedforward: the input of the last feed-forward, after its norm (Khandelwal et al. 2020, section 5). final: the last
hidden state, which the head reads."""
PLACES: tuple[KeyPlace, ...] = ("feedforward", "final")
Keys = Callable[[Float[Tensor, "B S D"]], Float[Tensor, "B S D"]]


def best_place(model: Model) -> KeyPlace:
    """That of the paper, where the model has it."""
    return "final" if last_feedforward(model) is None else "feedforward"


def check_place(model: Model, place: str) -> KeyPlace:
    if place not in PLACES:
        raise ValueError(f"key {place!r}: there is no such key; use one of {', '.join(PLACES)}")
    if place == "feedforward" and last_feedforward(model) is None:
        raise ValueError(
            f"key feedforward: layout {model.config.writer.layout!r} has no feed-forward of its own weights; use --key "
            "final, the last hidden state"
        )
    return place


@contextmanager
def reading_keys(model: Model, place: KeyPlace) -> Iterator[Keys]:
    """A function from the hidden states of the last tokens of a pass to their keys; to be called after each pass."""
    sublayer = last_feedforward(model)
    if place == "final" or sublayer is None:
        yield lambda h_BSD: h_BSD
        return
    with watching(sublayer) as seen:

        def keys(h_BSD: Tensor) -> Tensor:
            found = seen.take(h_BSD.shape[1])
            if found is None:
                raise ValueError(
                    f"key feedforward: a stack of kind {model.config.writer.tag} does not run its last feed-forward "
                    "over every token; use --key final, the last hidden state"
                )
            return found

        yield keys
