"""ImageSource: where images come from, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.data.tokenizer.pixels import Channels, Image
from sublayer.nn.config import Config

Size = tuple[int, int]
"""Height and width, in pixels."""


@dataclass(frozen=True)
class Survey:
    """What is known of images before their pixels are read."""

    count: int
    size: Size
    """Of every image; the size asked for, where one was."""
    channels: Channels
    """As the images have them."""


class ImageSource:
    """Abstract: a kind reads or draws its images, always in the same order."""

    class Config(Config, family="image source"):
        def build(self) -> ImageSource:
            return self.owner(self)

        @property
        def folder(self) -> Path | None:
            """The folder whose files are the images, if it is all of a folder; a run must not be written there."""
            return None

    config: Any
    """Its own class's Config."""

    def __init__(self, config: ImageSource.Config) -> None:
        self.config = config

    @property
    def title(self) -> str:
        """Its name in messages, after `image:`."""
        return str(getattr(self.config, "path", self.config.tag))

    def survey(self, size: Size | None) -> Survey:
        """size: to which images will be brought; None: they must all have one size, which is found."""
        raise NotImplementedError

    def read(self, size: Size) -> Iterator[Image]:
        """The images, of any size; a source that draws them draws them of this one."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """Changes whenever an image does."""
        raise NotImplementedError
