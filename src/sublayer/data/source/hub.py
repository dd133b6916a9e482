"""Texts of the Hugging Face hub, and Parquet files: read through `datasets`, which comes with the extra `data`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from sublayer.data.source.base import Piece, Source, identity
from sublayer.data.source.files import digest, matching, reading
from sublayer.data.source.jsonl import text_of


class Hub(Source):
    """Each row is a document; rows are streamed."""

    class Config(Source.Config, tag="hub"):
        where: ClassVar[tuple[str, ...]] = ()

        path: str
        """The dataset's name, `owner/name`; or a Parquet file or pattern on this machine."""
        name: str | None = None
        """Which of its configurations, if it has several."""
        split: str = "train"
        field: str = "text"
        revision: str | None = None
        """A branch, tag or commit; with a commit, the text is known from the cache without asking the hub."""

    config: Config

    def fingerprint(self) -> str | None:
        if self._is_parquet:
            return identity(self.config, files=[digest(path) for path in matching(self.config.path)])
        pinned = re.fullmatch(r"[0-9a-f]{40}", self.config.revision or "")
        return identity(self.config) if pinned else None

    def read(self) -> Iterator[Piece]:
        for number, row in enumerate(self._rows(), 1):
            where = f"{self.config.path}, row {number}"
            yield Piece(where, text_of(row, self.config.field, where), begins=True)

    @property
    def _is_parquet(self) -> bool:
        return self.config.path.endswith(".parquet")

    def _rows(self) -> Iterator[Any]:
        try:
            from datasets import load_dataset  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise ValueError(
                f"hub: {self.config.path} is read through the package datasets, which is not installed; "
                "pip install 'sublayer[data]'"
            ) from None
        config = self.config
        files = [str(_existing(path)) for path in matching(config.path)] if self._is_parquet else []
        try:
            if files:
                yield from load_dataset("parquet", data_files=files, split="train", streaming=True)
            else:
                named = {"split": config.split, "revision": config.revision}
                yield from load_dataset(config.path, config.name, **named, streaming=True)
        except Exception as error:  # many kinds: no network, no such dataset, no such split, no permission
            raise ValueError(
                f"hub: {config.path} cannot be read: {' '.join(str(error).split())}; check its name, configuration and "
                "split on the hub, and the network"
            ) from None


def _existing(path: Path) -> Path:
    with reading(path):
        path.stat()
    return path
