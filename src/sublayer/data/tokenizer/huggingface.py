"""A tokenizer.json of Hugging Face, used as it is through `tokenizers`.

The file is saved whole with the run, so that a run needs no other file. Its hash depends on the file's content, not on
where it lies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from sublayer.data.tokenizer.base import Ids, Tokenizer, as_text
from sublayer.data.tokenizer.bpe import Bpe, cut

FILE = "tokenizer.json"
NEVER = re.compile(rb"(?!)")
PROBES = (
    ("the cat.\n", "a dog 12"),
    ("x\n", "(y)"),
    ("the cat", " sat"),
    ("12", " 3"),
    ("Naïve 戦場!", " -z"),
    ("é", " E"),
)
"""Texts cut as `Bpe.seam` would cut them."""


class HuggingFace(Tokenizer):
    """No special tokens are added to a text. The file's own truncation and padding are not used."""

    learns_from_text = False

    class Config(Tokenizer.Config, tag="huggingface"):
        path: str | None = None
        """The file, or a folder that holds a tokenizer.json; None for one that was saved with a run."""

    config: Config

    @staticmethod
    def learn(config: Config, texts: Iterable[str | bytes]) -> dict[str, Any]:
        return read(config.path)

    def __init__(self, config: Config, learned: dict[str, Any]) -> None:
        path = config.path and str(_file(config.path).absolute())
        super().__init__(config.but(path=path), learned)
        self.inner = _build(learned, path or "the saved tokenizer")
        # Ids need not be without gaps.
        self.vocab = 1 + max(self.inner.get_vocab(with_added_tokens=True).values(), default=-1)
        if not self.vocab:
            raise ValueError(f"{path or 'the saved tokenizer'}: its vocabulary is empty; use another tokenizer")

    def dump(self) -> dict[str, Any]:
        return super().dump() | {"tokenizer": self.config.but(path=None).dump()}

    @cached_property
    def seam(self) -> re.Pattern[bytes]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of GPT-2's rule for words where these probes encode alike cut and whole; else a text is not cut."""
        alike = all(self._ids(a + b) == self._ids(a) + self._ids(b) for a, b in PROBES)
        return Bpe.seam if alike else NEVER

    def encode(self, text: str | bytes) -> np.ndarray:
        whole = as_text(text)
        pieces = [whole] if self.seam is NEVER else list(cut(whole))
        try:
            found = self.inner.encode_batch_fast(pieces, add_special_tokens=False)
        except Exception as error:  # the library raises Exception itself
            raise ValueError(
                f"tokenizer: the text cannot be encoded: {error}; use a tokenizer that has <unk>"
            ) from None
        return np.concatenate([np.empty(0, self.dtype), *(np.array(piece.ids, self.dtype) for piece in found)])

    def decode(self, ids: Ids) -> str:
        return self.inner.decode(self.checked(ids).tolist(), skip_special_tokens=False)

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Tokens are decoded together with those of the last step: a decoder may join or drop spaces between two."""
        before, now = [], []
        for token in ids:
            now.append(token)
            known, text = self.decode(before), self.decode(before + now)
            if text.startswith(known) and not text.endswith("\N{REPLACEMENT CHARACTER}"):
                yield text[len(known) :]
                before, now = now, []
        if now:
            yield self.decode(before + now)[len(self.decode(before)) :]

    def _ids(self, text: str) -> list[int]:
        return self.inner.encode(text, add_special_tokens=False).ids


def read(path: str | None) -> dict[str, Any]:
    """The file's JSON; ValueError in one line where it is missing, damaged, or something else."""
    if path is None:
        raise ValueError("data.tokenizer.path: no file is named; give a tokenizer.json of Hugging Face")
    file = _file(path)
    try:
        data = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{file}: there is no such file, expected a {FILE} of Hugging Face") from None
    except RecursionError:
        raise ValueError(f"{file}: nested too deeply for a {FILE} of Hugging Face") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{file}: not a {FILE} of Hugging Face: {error}; fetch it again") from None
    if not isinstance(data, dict) or not isinstance(data.get("model"), dict):
        raise ValueError(f"{file}: not a {FILE} of Hugging Face: it has no table 'model'; give the file of that name")
    _build(data, str(file))
    return data


def _file(path: str) -> Path:
    found = Path(path).expanduser()
    return found / FILE if found.is_dir() else found


def _build(learned: dict[str, Any], name: str) -> Any:
    from tokenizers import Tokenizer as Inner

    try:
        inner = Inner.from_str(json.dumps(learned))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library is no Exception
        why = " ".join(str(error).split())
        raise ValueError(f"{name}: not a {FILE} of Hugging Face: {why}; save it again with tokenizers") from None
    inner.no_truncation()
    inner.no_padding()
    return inner


def _guess(value: Any) -> Any:
    """A text that is no kind and looks like a path is the path of a tokenizer.json."""
    if not isinstance(value, str) or value in Tokenizer.Config.registry:
        return value
    is_path = value.endswith(".json") or "/" in value or Path(value).expanduser().exists()
    return HuggingFace.Config(path=value) if is_path else value


Guessed = Annotated[Tokenizer.Config, BeforeValidator(_guess)]
"""A field that takes a tokenizer's config, its table, its name, or the path of a tokenizer.json."""
