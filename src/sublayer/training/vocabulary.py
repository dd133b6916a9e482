"""A model's vocabulary, fitted to a text."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from sublayer.data import Dataset
from sublayer.nn.config import ConfigError
from sublayer.nn.embedding import TiedHead, TokenEmbedding
from sublayer.nn.model import Encoder, Model

log = logging.getLogger("sublayer.training")

PLAIN: dict[str, tuple[Any, tuple[str, ...]]] = {
    "embedding": (TokenEmbedding.Config, ("dropout", "scale", "norm", "types")),
    "head": (TiedHead.Config, ("bias",)),
}
"""What stands in for clusters where there are none, and what it keeps of them."""


def fit_vocab(model: Model.Config, changes: Mapping[str, Any], data: Dataset) -> Model.Config:
    """The model with as many ids as the text has, and then with the changes.

    An encoder has one id more, to hide others behind. A vocabulary that the changes name may be larger, not smaller.
    """
    needed = data.vocab + (1 if isinstance(model, Encoder.Config) else 0)
    wanted = changes.get("vocab", needed)
    chosen = any(key in ("embedding", "head") or key.endswith(".cutoffs") for key in changes)
    if isinstance(wanted, int) and not chosen:
        model = model.but(fitted(model, wanted))
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
