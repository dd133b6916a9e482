"""A model's vocabulary, fitted to its data; its head, to the answers of a task; its patterns, to rows of images."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from sublayer.data import Data
from sublayer.nn.config import ConfigError
from sublayer.nn.embedding import Head, Label, TiedHead, TokenEmbedding
from sublayer.nn.model import Model
from sublayer.objectives import Objective
from sublayer.objectives.answers import labels
from sublayer.training.images import fit_images

log = logging.getLogger("sublayer.training")

PLAIN: dict[str, tuple[Any, tuple[str, ...]]] = {
    "embedding": (TokenEmbedding.Config, ("dropout", "scale", "norm", "types")),
    "head": (TiedHead.Config, ("bias",)),
}
"""What replaces an embedding or head with clusters where the vocabulary is too small for them, and its fields that are
copied."""


def fit_vocab(
    model: Model.Config, changes: Mapping[str, Any], data: Data, objective: Objective.Config | None = None
) -> Model.Config:
    """The model with as many ids as the data has, and then with the changes; patterns take the width of images.

    Model or objective may need ids beside those of the data, such as a mask. A vocabulary that the changes name may be
    larger, not smaller. Where answers are no ids, the head becomes one of labels, unless the changes name another.
    """
    needed = data.vocab + max(model.extra_ids, 0 if objective is None else objective.extra_ids)
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
    return fit_images(made, changes, data)


def fitted(model: Model.Config, vocab: int) -> dict[str, Any]:
    """What changes with the vocabulary: clusters of rare words beyond its end are left out."""
    changes: dict[str, Any] = {"vocab": vocab}
    for part, (plain, copied) in PLAIN.items():
        config = getattr(model, part)
        cutoffs = getattr(config, "cutoffs", ())
        reached = [cutoff for cutoff in cutoffs if cutoff < vocab]
        if reached:
            changes[f"{part}.cutoffs"] = reached
        elif cutoffs:
            log.info("%s: a vocabulary of %d has no rare words; one matrix replaces the clusters", part, vocab)
            changes[part] = plain(**{name: getattr(config, name) for name in copied})
    return changes


def answering(model: Any, classes: int) -> Head.Config:
    """A head with so many labels."""
    return Label.Config(classes=classes) if labels(model.head) is None else model.head.but(classes=classes)
