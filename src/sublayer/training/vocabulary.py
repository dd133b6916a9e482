"""A model's vocabulary, fitted to a text; and its head, to the answers of a task."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from sublayer.data import Data
from sublayer.nn.config import ConfigError
from sublayer.nn.embedding import Label, TiedHead, TokenEmbedding
from sublayer.nn.model import Encoder, Model

log = logging.getLogger("sublayer.training")

PLAIN: dict[str, tuple[Any, tuple[str, ...]]] = {
    "embedding": (TokenEmbedding.Config, ("dropout", "scale", "norm", "types")),
    "head": (TiedHead.Config, ("bias",)),
}
"""What stands in for clusters where there are none, and what it keeps of them."""


def fit_vocab(model: Model.Config, changes: Mapping[str, Any], data: Data) -> Model.Config:
    """The model with as many ids as the text has, and then with the changes.

    An encoder has one id more, to hide others behind. A vocabulary that the changes name may be larger, not smaller.
    Where answers are no ids, the head becomes one of labels, unless the changes name another.
    """
    needed = data.vocab + (1 if isinstance(model, Encoder.Config) else 0)
    wanted = changes.get("vocab", needed)
    chosen = any(key in ("embedding", "head") or key.endswith(".cutoffs") for key in changes)
    fits = fitted(model, wanted) if isinstance(wanted, int) and not chosen else {}
    if data.classes is not None and "head" not in changes:
        fits["head"] = answering(model, data.classes)
    model = model.but(fits) if fits else model
    made = model.but({"vocab": needed, **changes})
    if made.vocab < needed:
        raise ConfigError(
            f"vocab={made.vocab}: the {data.tokenizer.config.tag} tokenizer has {needed} ids; leave vocab out to take "
            "as many, or use a tokenizer with fewer"
        )
    return made


def fitted(model: Model.Config, vocab: int) -> dict[str, Any]:
    """What changes with the vocabulary: clusters of rare words that a smaller one does not reach are left out."""
    changes: dict[str, Any] = {"vocab": vocab}
    for place, (plain, kept) in PLAIN.items():
        config = getattr(model, place)
        cutoffs = getattr(config, "cutoffs", ())
        reached = [cutoff for cutoff in cutoffs if cutoff < vocab]
        if reached:
            changes[f"{place}.cutoffs"] = reached
        elif cutoffs:
            log.info("%s: a vocabulary of %d has no rare words; one matrix takes the place of clusters", place, vocab)
            changes[place] = plain(**{name: getattr(config, name) for name in kept})
    return changes


def answering(model: Any, classes: int) -> Label.Config:
    """A head of so many labels."""
    return model.head.but(classes=classes) if isinstance(model.head, Label.Config) else Label.Config(classes=classes)
