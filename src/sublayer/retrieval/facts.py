"""The files of a store, and what store.json says about it.

STORE/
  build.json    the request, while it is built and afterwards
  keys.bin      a key for each token of a text after the first, in the order of the text
  tokens.bin    the tokens after those contexts
  store.json    written last: a folder with this file is a store; what it was made from and checksums
  index.json    the index: its kind, checksum and recall
  index.bin     its file, for an index that needs one
  checkpoints/  how far a build has come that was stopped
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from sublayer.runs import sealed_json
from sublayer.runs.record import Record, first_problem

REQUEST, FACTS, KEYS, TOKENS = "build.json", "store.json", "keys.bin", "tokens.bin"
INDEX_FACTS, INDEX, CHECKPOINTS = "index.json", "index.bin", "checkpoints"
MOVES = ("run", "title")
"""Names of files, which may be moved."""


class Sealed(Record):
    """A record whose file has a checksum."""

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            return cls.model_validate(sealed_json.read_asked(path))
        except ValidationError as error:
            raise ValueError(f"{path}: {first_problem(error)}; it was damaged or edited, put it back") from None

    def write(self, path: Path) -> None:
        sealed_json.seal(path, self.dump())


class StoreRequest(Sealed):
    """What a store is built from."""

    model: str
    """Hash of its config and weights."""
    run: str
    step: int
    tokenizer: str
    """Its hash."""
    vocab: int
    text: str
    """Key of the text, which depends on its content."""
    title: str
    split: str
    start: int
    stop: int
    """The bytes of the text that were read."""
    entries: int
    """Number of contexts, each with the token after it: entry n is the context of token n + 1."""
    key: str
    """Which vector of the model is the key."""
    dim: int
    dtype: str
    """Of the keys: float16 or float32."""
    length: int
    stride: int
    carry: bool
    batch: int
    memory: int | None
    """How the text was read; see `evaluation.protocol`."""


class StoreFacts(StoreRequest):
    """store.json."""

    scale: float
    """Keys are stored times this power of two, so that half precision holds them."""
    crc32: dict[str, int]
    """Checksum of each file."""


class IndexFacts(Sealed):
    """index.json."""

    config: dict[str, Any]
    crc32: int | None = None
    """Of its file; None where there is none."""
    about: dict[str, Any] = {}
    """What its kind reports."""
    recall: dict[int, float] | None = None
    """Of an approximate index: which share of so many nearest neighbours a search finds, measured on a sample."""
