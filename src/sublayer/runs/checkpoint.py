"""A checkpoint: a folder that appears whole, each of its files with a checksum."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from sublayer.files.atomic import writing
from sublayer.runs import sealed_json

FORMAT = 1
NOTES = "checkpoint.json"
SUFFIX = ".safetensors"


class DamagedError(ValueError):
    """A checkpoint whose files differ from those that were written."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder that exists; each of its files is checked against its checksum before it is used."""

    path: Path

    @property
    def step(self) -> int:
        return int(self.path.name)

    @property
    def notes(self) -> dict[str, Any]:
        """What was written beside the tensors, as plain JSON; `Notes.read` has those of a training as a record."""
        return self._contents()["notes"]

    def tensors(self, name: str) -> dict[str, Tensor] | None:
        """Those of one file; None if the checkpoint has no such file."""
        files = self._contents()["files"]
        if f"{name}{SUFFIX}" not in files:
            return None
        data = self._read(f"{name}{SUFFIX}")
        if hashlib.sha256(data).hexdigest() != files[f"{name}{SUFFIX}"]:
            raise self._damaged(f"{name}{SUFFIX}", "its checksum does not match")
        try:
            return load(data)
        except SafetensorError as error:
            raise self._damaged(f"{name}{SUFFIX}", str(error)) from None

    def verify(self) -> None:
        """Raise DamagedError if any byte is not as it was written."""
        for file, expected in self._contents()["files"].items():
            if hashlib.sha256(self._read(file)).hexdigest() != expected:
                raise self._damaged(file, "its checksum does not match")

    @classmethod
    def write(cls, folder: Path, step: int, notes: dict[str, Any], **tensors: dict[str, Tensor]) -> Checkpoint:
        """All of it under a name of its own, then renamed: a reader sees a whole checkpoint or none."""
        made = cls(folder / f"{step:08d}")
        draft = cls(folder / f".{made.path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
        try:
            files = dict(draft._put(name, named) for name, named in tensors.items())
            draft._note({"format": FORMAT, "notes": notes, "files": files})
            made.remove()  # the same step, taken before
            draft.path.rename(made.path)
        except (OSError, ValueError) as error:  # `writing` names the draft, a name that means nothing to a user
            why = error.__cause__ or error
            raise ValueError(
                f"{made.path}: cannot be written: {getattr(why, 'strerror', None) or why}; nothing of it was written. "
                "Free some space there, then resume the run"
            ) from error
        finally:
            shutil.rmtree(draft.path, ignore_errors=True)
        return made

    def add(self, name: str, tensors: dict[str, Tensor]) -> None:
        """Write one more file, or replace one; a file that the notes do not name is not part of the checkpoint."""
        contents = self._contents()
        if contents["files"].pop(f"{name}{SUFFIX}", None):
            self._note(contents)
        contents["files"] |= [self._put(name, tensors)]
        self._note(contents)

    def remove(self) -> None:
        """Rename it before it is deleted, so that a process killed meanwhile does not leave half of a checkpoint."""
        doomed = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.part")
        with suppress(FileNotFoundError):
            self.path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def _put(self, name: str, tensors: dict[str, Tensor]) -> tuple[str, str]:
        """Write a file of tensors: its name and its checksum."""
        data = save(tensors)
        with writing(self.path / f"{name}{SUFFIX}") as file:
            file.write(data)
        return f"{name}{SUFFIX}", hashlib.sha256(data).hexdigest()

    def _note(self, contents: dict[str, Any]) -> None:
        with writing(self.path / NOTES) as file:
            file.write(_sealed(contents))

    def _contents(self) -> dict[str, Any]:
        data = self._read(NOTES)
        try:
            contents = sealed_json.parse(data, self.path / NOTES)
            del contents["sha256"]
        except (ValueError, KeyError):
            raise self._damaged(NOTES, "it is not the JSON that was written") from None
        if _sealed(contents) != data:
            raise self._damaged(NOTES, "its checksum does not match")
        if contents.get("format") != FORMAT:
            there = sealed_json.short(contents.get("format"))
            raise ValueError(f"{self.path}: format {there}, this version reads {FORMAT}; update Sublayer")
        if not isinstance(contents.get("notes"), dict) or not _are_files(contents.get("files")):
            raise self._damaged(NOTES, "it lacks notes, or the names of files with their checksums")
        return contents

    def _read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise self._damaged(name, error.strerror or str(error)) from None

    def _damaged(self, name: str, why: str) -> DamagedError:
        return DamagedError(f"{self.path / name}: {why}, so the file was damaged")


def _are_files(files: Any) -> bool:
    """Whether it names files of tensors in this folder, each with a checksum."""
    if not isinstance(files, dict):
        return False
    return all(
        name.endswith(SUFFIX) and Path(name).name == name and isinstance(digest, str) for name, digest in files.items()
    )


def sweep(folder: Path) -> None:
    """Remove what killed writers left in a folder, and in the folders inside it. The caller holds the run's lock."""
    for draft in list(folder.rglob(".*.part")):
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def _sealed(contents: dict[str, Any]) -> bytes:
    """The file to the last byte: contents and their checksum."""
    sha256 = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
    return json.dumps({**contents, "sha256": sha256}, indent=2).encode()
