"""A text in the cache, named by its key: a run names standard input so, to be able to resume."""

from __future__ import annotations

from typing import ClassVar

from sublayer.data.source.base import Source


class Cached(Source):
    class Config(Source.Config, tag="cached"):
        where: ClassVar[tuple[str, ...]] = ()

        text: str
        """Its key in the cache."""

    config: Config

    @property
    def title(self) -> str:
        return f"text {self.config.text[:12]}… of the cache"

    @property
    def stored_key(self) -> str:
        return self.config.text

    def locate(self, offset: int) -> str:
        return f"{self.title}, byte {offset:,}"
