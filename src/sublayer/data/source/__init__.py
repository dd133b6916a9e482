"""Where texts come from."""

from sublayer.data.source.base import Document, Piece, Source
from sublayer.data.source.cached import Cached
from sublayer.data.source.file import File
from sublayer.data.source.files import Files
from sublayer.data.source.folder import FolderSource
from sublayer.data.source.glob import Glob
from sublayer.data.source.guess import Guessed, guess
from sublayer.data.source.hub import Hub
from sublayer.data.source.jsonl import Jsonl
from sublayer.data.source.stdin import Stdin
from sublayer.data.source.stdlib import Stdlib

__all__ = [
    "Cached",
    "Document",
    "File",
    "Files",
    "FolderSource",
    "Glob",
    "Guessed",
    "Hub",
    "Jsonl",
    "Piece",
    "Source",
    "Stdin",
    "Stdlib",
    "guess",
]
