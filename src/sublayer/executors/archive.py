"""Archive: a folder as bytes, for machines that share no disk. It is unpacked whole or not at all."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import tarfile
from pathlib import Path, PurePosixPath


def pack(folder: Path | str) -> bytes:
    """The plain files of a folder, without locks and drafts; the same files give the same bytes."""
    root, packed = Path(folder), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            inside = path.relative_to(root)
            if path.is_symlink() or not path.is_file() or any(name.startswith(".") for name in inside.parts):
                continue
            data = path.read_bytes()
            member = tarfile.TarInfo(inside.as_posix())
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def unpack(archive: bytes, out: Path | str) -> Path:
    """Unpack an archive to `out`, which must be new or empty; the folder appears there only when it is complete."""
    out = Path(out)
    if out.is_dir() and not any(out.iterdir()):
        out.rmdir()
    if out.exists():
        raise ValueError(f"{out}: the folder is not empty, so an archive is not unpacked over it; move it away")
    draft = out.with_name(f".{out.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        draft.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                _put(draft, member, tar)
        draft.rename(out)
    except tarfile.TarError as error:
        raise ValueError(f"{out}: the archive cannot be read: {error}; run the task again") from None
    except OSError as error:
        raise ValueError(f"{out}: cannot be written: {error.strerror or error}; free some space there") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return out


def _put(folder: Path, member: tarfile.TarInfo, tar: tarfile.TarFile) -> None:
    """Only plain files, and only inside the folder, whatever the archive names."""
    name = PurePosixPath(member.name)
    if not member.isreg() or name.is_absolute() or not name.parts or ".." in name.parts or "\\" in member.name:
        raise ValueError(f"{member.name}: not a plain file inside the folder, so the archive is not unpacked")
    data = tar.extractfile(member)
    assert data is not None
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        shutil.copyfileobj(data, file)
