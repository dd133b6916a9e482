"""A model and its training, fitted to images: patterns and positions to their size, the length of rows to their
tokens."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from sublayer.data import Data
from sublayer.nn import layout as layouts
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.nn.stack import Stack
from sublayer.training.config import TrainConfig

log = logging.getLogger("sublayer.training")


def fit_images(model: Model.Config, changes: Mapping[str, Any], data: Data) -> Model.Config:
    """The model with patterns and positions of the size that the data's images have, unless the changes name one."""
    if data.image_shape is None:
        return model
    _, columns, channels = data.image_shape
    fitted: dict[str, Any] = {}
    for prefix, stack in _stacks(model):
        if not _name(changes, "position", "shape"):
            fitted[f"{prefix}position"] = stack.position.for_images(data.image_shape)
        if not _name(changes, "pattern", "width"):
            parts = {letter: part for letter, part in stack.alphabet.items() if part.image_row is not None}
            fitted |= {f"{prefix}{letter}": part.for_images(columns * channels) for letter, part in parts.items()}
    made = model.but(fitted) if fitted else model
    for path, (before, after) in model.diff(made).items():
        log.info("%s=%s: fitted to the images, before it was %s", path, after, before)
    return made


def fit_length(config: TrainConfig, data: Data) -> TrainConfig:
    """The training with rows as long as the data's, where all are alike."""
    return config if data.row_length in (None, config.length) else config.but(length=data.row_length)


def check_images(model: Model.Config, data: Data) -> None:
    """Refuse a pattern or a position that would cut the images into other rows than they have."""
    if data.image_shape is None:
        return
    rows, columns, channels = data.image_shape
    row = columns * channels
    there = f"{rows} rows of {row} tokens, {columns} pixels in {channels} channel{'s' if channels > 1 else ''}"
    for prefix, stack in _stacks(model):
        if (fitted := stack.position.for_images(data.image_shape)) != stack.position:
            (path, (found, wanted)), *_ = stack.position.diff(fitted).items()
            raise ConfigError(
                f"{prefix}position.{path}={_plain(found)}: the images of {data.title} have {there}; use "
                f"{prefix}position.{path}={_plain(wanted)}, or leave it out"
            )
        for letter, part in zip(layouts.expand(stack.layout), stack.parts, strict=True):
            if part.image_row not in (None, row):
                known = f"{letter}.pattern.width" in stack.keys()  # noqa: SIM118 (a method)
                remedy = f"{prefix}{letter}.pattern.width={row}" if known else f"a width of {row}"
                raise ConfigError(
                    f"{prefix}{letter}.{part.view}: made for images with rows of {part.image_row} tokens, and those of "
                    f"{data.title} have {there}; use {remedy}, or leave the width out"
                )


def _stacks(model: Model.Config) -> list[tuple[str, Stack.Config]]:
    """Each with what stands before its keys."""
    return [(f"{name}." if name else "", stack) for name, stack in model.stacks.items()]


def _plain(value: Any) -> str:
    """As a shell takes it."""
    return json.dumps(value, separators=(",", ":"))


def _name(changes: Mapping[str, Any], what: str, field: str) -> bool:
    """Whether a change gives a pattern its width, or a position its shape."""
    plain = (f"{key} {json.dumps(value, default=lambda one: one.dump())}" for key, value in changes.items())
    return any(what in change and field in change for change in plain)
