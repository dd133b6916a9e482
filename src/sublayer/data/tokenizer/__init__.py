"""Texts to ids and back."""

from sublayer.data.tokenizer.base import NotTextError, Tokenizer
from sublayer.data.tokenizer.bpe import Bpe
from sublayer.data.tokenizer.byte import Byte
from sublayer.data.tokenizer.char import Char
from sublayer.data.tokenizer.huggingface import HuggingFace
from sublayer.data.tokenizer.pixels import Pixels
from sublayer.data.tokenizer.symbols import Symbols
from sublayer.data.tokenizer.word import Word

__all__ = ["Bpe", "Byte", "Char", "HuggingFace", "NotTextError", "Pixels", "Symbols", "Tokenizer", "Word"]
