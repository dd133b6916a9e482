"""Bytes: 256 tokens, nothing to learn, any file."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sublayer.data.tokenizer.base import BytesTokenizer, Ids, Tokenizer


class Byte(BytesTokenizer):
    verbatim = True
    learns_from_text = False
    seam = re.compile(rb"(?s).")

    class Config(Tokenizer.Config, tag="byte"):
        pass

    def __init__(self, config: Config | None = None, learned: Any = None) -> None:
        super().__init__(config or Byte.Config(), None)
        self.vocab = 256

    def encode(self, text: str | bytes) -> np.ndarray:
        return np.frombuffer(text.encode() if isinstance(text, str) else text, dtype=np.uint8)

    def bytes_of(self, ids: Ids) -> bytes:
        return self.checked(ids).astype(np.uint8).tobytes()
