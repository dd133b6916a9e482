"""Record: a result that one room writes as JSON and others read, declared once, with named and typed fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sublayer.runs import sealed_json

M = TypeVar("M", bound=BaseModel)


class Record(BaseModel):
    """Frozen. Fields that a later version added to a file are ignored, so that older versions read it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a file; ValueError in one line where that cannot be."""
        return read_record(path, cls)

    def write(self, path: Path) -> None:
        sealed_json.write(path, self.dump())

    def dump(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return self.model_dump(mode="json")


def first_problem(error: ValidationError) -> str:
    """`rows.0.mean: Input should be a valid number`."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(step) for step in first["loc"])
    return f"{path}: {first['msg']}" if path else first["msg"]


def read_record(path: Path, kind: type[M]) -> M:
    """A file as a record; ValueError in one line if it is missing, not JSON, or does not hold what is expected."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(
            f"{path}: not there yet; wait until the work in {path.parent} is done, or go on with it"
        ) from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise ValueError(f"{path}: {first_problem(error)}; it was damaged or edited") from None
