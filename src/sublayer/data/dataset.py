"""The front door: what a user names, as tokens ready to be batched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from sublayer.data.base import Data
from sublayer.data.batches import Lanes, Sweep, Windows
from sublayer.data.source import Cached, Guessed, Source, Stdlib, guess
from sublayer.data.splits import NAMES, Fractions, Given, Splits
from sublayer.data.text import Text, gather
from sublayer.data.tokenizer import Byte, Tokenizer
from sublayer.data.tokenizer.huggingface import Guessed as GuessedTokenizer
from sublayer.data.tokens import Tokens, fit, tokenise
from sublayer.files import cache

ALIASES = {"train": ("train",), "valid": ("valid", "validation", "val", "dev"), "test": ("test",)}


@dataclass(frozen=True)
class Dataset(Data):
    """A text, divided and tokenised."""

    class Config(Data.Config, tag="data"):
        source: Guessed = Stdlib.Config()
        """Where the text comes from; takes what a user types, too: `book.txt`, `notes/`, `-`."""
        splits: Splits.Config = Fractions.Config()
        tokenizer: GuessedTokenizer = Byte.Config()
        """How it becomes ids; takes the path of a Hugging Face tokenizer.json, too."""

        @classmethod
        def guess(cls, typed: str) -> Dataset.Config:
            """From what a user types; a folder that holds train, valid and test files means those."""
            if not typed:
                raise ValueError("data: expected a file, a folder, a pattern, - or stdlib, got an empty text")
            found = _split_files(Path(typed).expanduser())
            if not found:
                return cls(source=guess(typed))
            valid, test = (guess(found[name]) if name in found else None for name in ("valid", "test"))
            return cls(source=guess(found["train"]), splits=Given.Config(valid=valid, test=test))

        def prepare(self, folder: Path | str | None = None, tokenizer: Tokenizer | None = None) -> Dataset:
            return _prepare(self, folder, tokenizer)

        def whole(self) -> Dataset.Config | None:
            splits = self.splits.whole()
            return None if splits is None else self.but(splits=splits)

        @property
        def folder(self) -> Path | None:
            return self.source.folder

    config: Dataset.Config
    """As asked for, but standard input is named by the key of its text in the cache, so that it can be read again."""
    tokenizer: Tokenizer
    train: Tokens
    valid: Tokens
    test: Tokens

    @property
    def title(self) -> str:
        return self.train.part.text.source.title

    def title_of(self, split: str) -> str:
        return getattr(self, split).part.text.source.title

    @property
    def hash(self) -> str:
        """The same for the same tokens, wherever the text lies."""
        parts = {name: getattr(self, name).part.key for name in NAMES}
        return cache.key(tokenizer=self.tokenizer.hash, **parts)

    def bytes_per_token(self, split: str) -> float:
        tokens = getattr(self, split)
        return tokens.bytes / max(1, len(tokens))

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
    ) -> Lanes | Windows:
        kind: type[Lanes | Windows] = Lanes if carry else Windows
        return kind(self.train, batch, length, seed=seed, rank=rank, world=world, cursor=cursor)

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
    ) -> Sweep:
        ids = getattr(self, split).ids
        # One id more than targets: the first is never one.
        return Sweep(ids if limit is None else ids[: limit + 1], batch, length, rank=rank, world=world)


@overload
def prepare(
    config: Dataset.Config, folder: Path | str | None = None, tokenizer: Tokenizer | None = None
) -> Dataset: ...


@overload
def prepare(config: Data.Config, folder: Path | str | None = None, tokenizer: Tokenizer | None = None) -> Data: ...


def prepare(config: Data.Config, folder: Path | str | None = None, tokenizer: Tokenizer | None = None) -> Data:
    """Read, divide and tokenise a text once; the next time it comes from the cache. A task is drawn as it is needed.

    `folder` is the cache's (else $SUBLAYER_CACHE, else ~/.cache/sublayer). A `tokenizer` that has learned already, such
    as a trained model's, is used instead of one that learns from train.
    """
    return config.prepare(folder, tokenizer)


def _prepare(config: Dataset.Config, folder: Path | str | None, tokenizer: Tokenizer | None) -> Dataset:
    home = cache.folder(folder)
    texts: dict[str, Text] = {}

    def gather_once(source: Source.Config) -> Text:
        if source.hash not in texts:
            texts[source.hash] = gather(source, home)
        return texts[source.hash]

    parts = config.splits.build().divide(config.source, gather_once)
    if not len(parts["train"].bytes):
        raise ValueError(
            f"{parts['train'].text.source.title}: nothing is left for train after valid and test; "
            "give a longer text, or smaller splits.valid and splits.test"
        )
    tokenizer = tokenizer or fit(config.tokenizer, parts["train"], home)
    tokens = {name: tokenise(name, part, tokenizer, home) for name, part in parts.items()}
    return Dataset(_name_once(config.but(tokenizer=tokenizer.config), texts), tokenizer, **tokens)


def _name_once(config: Dataset.Config, texts: dict[str, Text]) -> Dataset.Config:
    """With the key of its text in place of each source that can be read only once."""
    sources = {"source": config.source} | {f"splits.{name}": source for name, source in config.splits.sources.items()}
    once = {path: source for path, source in sources.items() if source.read_once}
    return config.but({path: Cached.Config(text=texts[source.hash].key) for path, source in once.items()})


def _split_files(folder: Path) -> dict[str, str]:
    """The one file for each split in a folder, if there is one for train and one for valid or test."""
    if not folder.is_dir():
        return {}
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    found = {name: [str(path) for path in files if path.name.split(".")[0] in words] for name, words in ALIASES.items()}
    single = {name: paths[0] for name, paths in found.items() if len(paths) == 1}
    several = any(len(paths) > 1 for paths in found.values())
    return {} if several or "train" not in single or len(single) == 1 else single
