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

FORMAT = 1
NOTES = "checkpoint.json"


class DamagedError(ValueError):
    """A checkpoint that is not what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """One that is there; nothing of it is believed before its checksum is compared."""

    path: Path

    @property
    def step(self) -> int:
        return int(self.path.name)

    @property
    def notes(self) -> dict[str, Any]:
        """What was written beside the tensors, as plain JSON."""
        return self._contents()["notes"]

    def tensors(self, name: str) -> dict[str, Tensor] | None:
        """Those of one file; None if the checkpoint has no such file."""
        files = self._contents()["files"]
        if f"{name}.safetensors" not in files:
            return None
        data = self._read(f"{name}.safetensors")
        if hashlib.sha256(data).hexdigest() != files[f"{name}.safetensors"]:
            raise self._damaged(f"{name}.safetensors", "its checksum does not match")
        try:
            return load(data)
        except SafetensorError as error:
            raise self._damaged(f"{name}.safetensors", str(error)) from None

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
        except (OSError, ValueError) as error:  # `writing` names the draft, of which nobody has heard
            why = error.__cause__ or error
            raise ValueError(
                f"{made.path}: cannot be written: {getattr(why, 'strerror', None) or why}; nothing of it was kept. "
                "Free some space there, then resume the run"
            ) from error
        finally:
            shutil.rmtree(draft.path, ignore_errors=True)
        return made

    def add(self, name: str, tensors: dict[str, Tensor]) -> None:
        """One more file, or another in its place; it counts while the notes name it."""
        contents = self._contents()
        if contents["files"].pop(f"{name}.safetensors", None):
            self._note(contents)
        contents["files"] |= [self._put(name, tensors)]
        self._note(contents)

    def remove(self) -> None:
        """Under another name first, so that a process killed meanwhile leaves no half of it."""
        doomed = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.part")
        with suppress(FileNotFoundError):
            self.path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def _put(self, name: str, tensors: dict[str, Tensor]) -> tuple[str, str]:
        """Write a file of tensors: its name and its checksum."""
        data = save(tensors)
        with writing(self.path / f"{name}.safetensors") as file:
            file.write(data)
        return f"{name}.safetensors", hashlib.sha256(data).hexdigest()

    def _note(self, contents: dict[str, Any]) -> None:
        with writing(self.path / NOTES) as file:
            file.write(_sealed(contents))

    def _contents(self) -> dict[str, Any]:
        data = self._read(NOTES)
        try:
            contents = json.loads(data)
            del contents["sha256"]
        except (ValueError, KeyError, TypeError):
            raise self._damaged(NOTES, "it is not the JSON that was written") from None
        if _sealed(contents) != data:
            raise self._damaged(NOTES, "its checksum does not match")
        if contents["format"] != FORMAT:
            raise ValueError(f"{self.path}: format {contents['format']}, this version reads {FORMAT}; update Sublayer")
        return contents

    def _read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise self._damaged(name, error.strerror or str(error)) from None

    def _damaged(self, name: str, why: str) -> DamagedError:
        return DamagedError(f"{self.path / name}: {why}, so the file was damaged")


def sweep(folder: Path) -> None:
    """Remove what killed writers left in a folder, and in the folders inside it; for whoever holds the run's lock."""
    for draft in list(folder.rglob(".*.part")):
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def _sealed(contents: dict[str, Any]) -> bytes:
    """The file to the last byte: contents and their checksum."""
    sha256 = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
    return json.dumps({**contents, "sha256": sha256}, indent=2).encode()
