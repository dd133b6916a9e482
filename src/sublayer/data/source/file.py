"""One file, plain or .gz."""

from __future__ import annotations

from pathlib import Path

from sublayer.data.source.base import Source
from sublayer.data.source.files import Files


class File(Files):
    class Config(Source.Config, tag="file"):
        path: str

    config: Config

    def find(self) -> list[Path]:
        return [Path(self.config.path).expanduser()]
