"""All files in a folder, at any depth, in the order of their paths."""

from __future__ import annotations

import os
from pathlib import Path

from sublayer.data.source.base import Source
from sublayer.data.source.files import Files, reading


class FolderSource(Files):
    """Names that begin with a dot are skipped, folders too."""

    class Config(Source.Config, tag="folder"):
        path: str

        @property
        def folder(self) -> Path:
            return Path(self.path).expanduser()

    config: Config

    def find(self) -> list[Path]:
        root = Path(self.config.path).expanduser()
        with reading(root):
            os.stat(root)
        if not root.is_dir():
            raise ValueError(f"{root}: is a file, expected a folder; leave out the / at its end")
        found = sorted(path for path in root.rglob("*") if path.is_file() and not _hidden(path.relative_to(root)))
        if not found:
            raise ValueError(f"{root}: holds no files; give a folder with text in it")
        return found


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
