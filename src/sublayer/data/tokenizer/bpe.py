"""Byte-pair encoding over bytes, learned on the spot by `tokenizers` (Sennrich et al. 2016; bytes as in GPT-2)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import Field

from sublayer.data.tokenizer.base import BytesTokenizer, Ids, MinCount, Tokenizer, as_text

LARGEST = 1 << 20
"""The library reserves memory for as many tokens as are asked for, and aborts where there is not enough."""
AT_ONCE = 1 << 16
"""Bytes encoded as one: long texts are cut at seams, and the parts shared among cores."""


class Bpe(BytesTokenizer):
    """Every text can be written, and comes back as it was; the vocabulary may turn out smaller than asked."""

    # GPT-2's rule for words joins a line end to nothing visible on either side, and a space to what follows
    seam = re.compile(rb"[!-~](?:\n(?=[!-~])|(?= [!-~]))")

    class Config(Tokenizer.Config, tag="bpe"):
        size: int = Field(default=4096, ge=256, le=LARGEST)
        """Size of the vocabulary; 256 of it are the bytes. A text with fewer pairs to join gives a smaller one."""
        min_count: MinCount = 2
        """Pairs seen more rarely are not joined."""

    config: Config

    @staticmethod
    def learn(config: Config, texts: Iterable[str | bytes]) -> dict[str, Any]:
        from tokenizers.trainers import BpeTrainer

        found, alphabet = _empty()
        trainer = BpeTrainer(
            vocab_size=config.size,
            min_frequency=config.min_count,
            initial_alphabet=alphabet,
            show_progress=sys.stderr.isatty(),
        )
        found.train_from_iterator((part for text in texts for part in cut(as_text(text))), trainer)
        return json.loads(found.to_str())

    def __init__(self, config: Config, learned: dict[str, Any]) -> None:
        from tokenizers import Tokenizer as Inner

        super().__init__(config, learned)
        try:
            self.inner = Inner.from_str(json.dumps(learned))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the library is no Exception
            raise ValueError(f"not what the bpe tokenizer learns: {error}") from None
        tokens = self.inner.get_vocab()
        self.vocab = len(tokens)
        if not set("".join(tokens)) <= set(_alphabet().values()) or set(tokens.values()) != set(range(self.vocab)):
            raise ValueError("not what the bpe tokenizer learns: its tokens are not strings of bytes, or ids have gaps")

    @cached_property
    def _bytes(self) -> np.ndarray:
        """The bytes of each token."""
        byte = {char: number for number, char in _alphabet().items()}
        tokens = self.inner.get_vocab()
        ordered = sorted(tokens, key=tokens.__getitem__)
        return np.array([bytes(byte[char] for char in token) for token in ordered], dtype=object)

    def encode(self, text: str | bytes) -> np.ndarray:
        found = self.inner.encode_batch_fast(list(cut(as_text(text))), add_special_tokens=False)
        return np.concatenate([np.empty(0, self.dtype), *(np.array(part.ids, self.dtype) for part in found)])

    def bytes_of(self, ids: Ids) -> bytes:
        return b"".join(self._bytes[self.checked(ids)])


def _empty() -> tuple[Any, list[str]]:
    from tokenizers import Tokenizer as Inner
    from tokenizers import decoders, models, pre_tokenizers

    found = Inner(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    return found, list(_alphabet().values())


def _alphabet() -> dict[int, str]:
    """GPT-2's printable character for each byte: itself where it is visible, else the next free one from 256."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in set(visible)]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + n) for n, byte in enumerate(hidden)}


_SEAM = re.compile(Bpe.seam.pattern.decode())


def cut(text: str) -> Iterable[str]:
    """Parts of a long text, cut at seams."""
    start = 0
    while len(text) - start > AT_ONCE:
        found = _SEAM.search(text, start + AT_ONCE)
        if found is None:
            break
        yield text[start : found.end()]
        start = found.end()
    yield text[start:]
