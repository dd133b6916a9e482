"""Text: all documents of a source, one after another, gathered once into a mapped file of bytes.

Splits, tokenizers and counts read the map: packed files are unpacked once, standard input is stored, and the text
itself serves as the token file of the byte tokenizer.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sublayer.data import mapped
from sublayer.data.source import Source
from sublayer.files import cache

log = logging.getLogger(__name__)

BYTES = np.dtype(np.uint8)


@dataclass(frozen=True)
class Text:
    key: str
    """Depends on the content and on the source's options, not on the path."""
    bytes: np.ndarray
    source: Source

    def locate(self, offset: int) -> str:
        """Where a byte of it comes from."""
        return self.source.locate(offset)


def gather(config: Source.Config, folder: Path) -> Text:
    """The source's text, from the cache if it is there."""
    source = config.build()
    if source.stored_key is not None:
        return Text(source.stored_key, _from_cache(source, source.stored_key, folder), source)
    stamp, name = source.stamp(), source.fingerprint()
    key = _read_to_know(source, folder) if name is None else cache.key(format=mapped.FORMAT, text=name)
    path = _home(key, folder)
    text = mapped.build(path, BYTES, lambda: _contents(source), source=config.dump())
    if source.stamp() != stamp:
        path.with_suffix(".json").unlink(missing_ok=True)
        raise ValueError(f"{source.title}: was changed while it was read; start again when it is written")
    return Text(key, text, source)


def _home(key: str, folder: Path) -> Path:
    return folder / "texts" / key


def _contents(source: Source) -> Iterator[bytes]:
    log.info("reading %s", source.title)
    size = 0
    for piece in source.joined():
        size += len(piece.data)
        yield piece.data
    if not size:
        raise ValueError(f"{source.title}: the text is empty; give one with something in it")


def _from_cache(source: Source, key: str, folder: Path) -> np.ndarray:
    path = _home(key, folder)
    if not path.with_suffix(".json").exists():
        raise ValueError(f"{source.title}: is no longer in {folder}; give the text again")
    try:
        return mapped.load(path)
    except ValueError as error:
        raise ValueError(f"{source.title}: {error}; give the text again") from None


def _read_to_know(source: Source, folder: Path) -> str:
    """Read a source whose content is unknown before it is read, into a file named by the content's hash."""
    digest = hashlib.sha256()

    def contents() -> Iterator[bytes]:
        for data in _contents(source):
            digest.update(data)
            yield data

    arriving = folder / "texts" / "arriving"
    with cache.held(arriving):
        mapped.write(arriving, BYTES, contents(), source=source.config.dump())
        key = cache.key(format=mapped.FORMAT, sha256=digest.hexdigest())
        with cache.held(_home(key, folder)):
            for suffix in (".bin", ".json"):
                arriving.with_suffix(suffix).replace(_home(key, folder).with_suffix(suffix))
    return key
