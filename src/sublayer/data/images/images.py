"""Images as rows of tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from sublayer.data import mapped
from sublayer.data.base import Data
from sublayer.data.batches import Batch
from sublayer.data.images.array import ImageArray
from sublayer.data.images.batches import ImageRows, ImageSplit, sweep
from sublayer.data.images.files import ImageFiles
from sublayer.data.images.resize import resized
from sublayer.data.images.shapes import Shapes
from sublayer.data.images.source import ImageSource
from sublayer.data.permutation import mix, permute
from sublayer.data.splits import NAMES
from sublayer.data.tokenizer import Pixels, Tokenizer
from sublayer.data.tokenizer.pixels import Channels, Levels
from sublayer.files import cache
from sublayer.keys import absolute
from sublayer.nn.config import ConfigError, Count

FORMAT = 1
"""Version of the files of pixels in the cache."""
DTYPE = np.dtype(np.uint8)


def _both(value: Any) -> Any:
    """A single number is the side of a square."""
    return value if value is None or isinstance(value, list | tuple) else (value, value)


@dataclass(frozen=True)
class Images(Data):
    """Images, each a row of its own: its pixels from the top, a token for each channel (Parmar et al. 2018)."""

    class Config(Data.Config, tag="image"):
        prefix: ClassVar[str] = "image:"
        what: ClassVar[str] = "a set of images"

        source: ImageSource.Config = Shapes.Config()
        """Of images: where they come from: shapes, files or array."""
        size: Annotated[tuple[Count, Count] | None, BeforeValidator(_both)] = None
        """Of images: height,width in pixels, or one number for both, to which all are brought; null: as they are."""
        channels: Channels | None = None
        """Of images: grey or rgb; null: as they are, and grey for shapes."""
        levels: Levels = 256
        """Of images: levels of a channel, 2 to 256; fewer make a smaller vocabulary."""
        valid: float = Field(default=0.05, ge=0, lt=1)
        """Of images: the share in valid."""
        test: float = Field(default=0.05, ge=0, lt=1)
        """Of images: the share in test."""
        seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
        """Of images: seed of the splits."""

        @model_validator(mode="after")
        def _leave_some(self) -> Images.Config:
            if self.valid + self.test >= 1:
                raise ValueError(f"valid={self.valid} and test={self.test} leave nothing to train on; use less than 1")
            return self

        @classmethod
        def named(cls, name: str) -> Images.Config:
            """`image:`, `image:shapes`, `image:photos/`, `image:photos/*.png`, `image:digits.npy`."""
            if not name or name in ImageSource.Config.registry:
                return cls(source=ImageSource.Config.parse(name or "shapes", "data.source"))
            kind = ImageArray if name.endswith(".npy") else ImageFiles
            return cls(source=kind.Config(path=absolute(name)))

        @property
        def called(self) -> str:
            return self.prefix + self.source.build().title

        def prepare(self, folder: Path | str | None = None, tokenizer: Tokenizer | None = None) -> Images:
            return _prepare(self, folder, tokenizer)

        def whole(self) -> Images.Config:
            return self.but(valid=0.0, test=0.0)

        @property
        def folder(self) -> Path | None:
            return self.source.folder

    alone: ClassVar[bool] = True
    row: ClassVar[str] = "image"

    config: Images.Config
    """As asked for, with the size and channels that the images have."""
    tokenizer: Pixels  # pyright: ignore[reportIncompatibleVariableOverride] (it is frozen)
    train: ImageSplit
    valid: ImageSplit
    test: ImageSplit
    key: str
    """Of the file of pixels in the cache."""

    @property
    def title(self) -> str:
        return self.config.called

    @property
    def hash(self) -> str:
        splits = {name: getattr(self.config, name) for name in ("valid", "test", "seed")}
        return cache.key(tokenizer=self.tokenizer.hash, images=self.key, **splits)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return self.tokenizer.config.height, self.tokenizer.config.width, self.tokenizer.channels

    @property
    def row_length(self) -> int:
        return self.tokenizer.tokens

    def longest(self, split: str) -> int:
        return self.row_length

    def figures(self, loss: float, split: str) -> dict[str, float]:
        """Each token is one dimension, a channel of a pixel."""
        return {"bits_per_dim": loss / math.log(2)}

    def batches(
        self,
        batch: int,
        length: int,
        *,
        carry: bool,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        cursor: Mapping[str, Any] | None = None,
    ) -> ImageRows:
        return ImageRows(self.train, batch, seed=seed, rank=rank, world=world, cursor=cursor)

    def sweep(
        self,
        split: str,
        batch: int,
        length: int,
        *,
        carry: bool,
        limit: int | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> Iterator[Batch]:
        return sweep(getattr(self, split).beginning(limit), batch, rank=rank, world=world)


def _prepare(config: Images.Config, folder: Path | str | None, tokenizer: Tokenizer | None) -> Images:
    """Read, resize and cut into levels once; the next time the pixels come from the cache.

    A trained model's tokenizer decides on size, channels and levels.
    """
    source, known = config.source.build(), None if tokenizer is None else tokenizer.pixels
    if tokenizer is not None and known is None:
        raise ValueError(
            f"{config.called}: is a set of images, and the model was trained on other tokens; use the data that it was "
            "trained on"
        )
    survey = source.survey(config.size if known is None else (known.config.height, known.config.width))
    if known is None:
        (height, width), channels = survey.size, config.channels or survey.channels
        known = Pixels(Pixels.Config(height=height, width=width, channels=channels, levels=config.levels))
    size = known.config.height, known.config.width
    key = cache.key(format=FORMAT, images=source.fingerprint(), pixels=known.config.dump())
    levels = mapped.build(
        cache.folder(folder) / "images" / key,
        DTYPE,
        lambda: (known.read(resized(image, *size)) for image in source.read(size)),
        source=config.source.dump(),
        pixels=known.config.dump(),
    )
    levels_NT = levels.reshape(-1, known.tokens)
    used = config.but(size=size, channels=known.config.channels, levels=known.config.levels)
    splits = _divided(used, len(levels_NT))
    return Images(used, known, *(ImageSplit(name, levels_NT, splits[name], known.start) for name in NAMES), key=key)


def _divided(config: Images.Config, count: int) -> dict[str, np.ndarray]:
    """The numbers of the images of each split: at least one where a share is asked for."""
    share = {name: getattr(config, name) for name in ("valid", "test")}
    valid, test = (max(1, round(count * part)) if part else 0 for part in share.values())
    if valid + test >= count:
        raise ConfigError(
            f"{config.called}: its {count:,} images leave none for train after {valid} in valid and {test} in test; "
            "give more images, or set data.valid=0 data.test=0"
        )
    order = permute(np.arange(count), count, mix(config.seed))
    return {"test": order[:test], "valid": order[test : test + valid], "train": order[test + valid :]}
