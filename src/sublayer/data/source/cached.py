"""A text that was read before and stays in the cache: what standard input becomes, so that a run can be resumed."""

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

    def place(self, offset: int) -> str:
        return f"{self.title}, byte {offset:,}"
