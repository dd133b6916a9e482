"""The files that a pattern matches."""

from __future__ import annotations

from pathlib import Path

from sublayer.data.source.base import Source
from sublayer.data.source.files import Files, matching


class Glob(Files):
    class Config(Source.Config, tag="glob"):
        path: str
        """`notes/*.md`; `**` for folders at any depth."""

    config: Config

    def find(self) -> list[Path]:
        return matching(self.config.path)
