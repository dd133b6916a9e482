"""Family: one format of Hugging Face's, as data and two translations of its config."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from sublayer.interop.huggingface.canonical import canonical
from sublayer.interop.huggingface.entries import CheckpointError, Entries
from sublayer.interop.huggingface.weights import Row
from sublayer.nn.config import Config
from sublayer.nn.model import SingleStack

C = TypeVar("C", bound=Config)


class Family:
    """Abstract. A subclass with a model_type enters the registry; `read` and `write` find it there.

    Dropout acts in training only: it is carried over where both sides have a key for it, and left behind elsewhere.
    """

    registry: ClassVar[dict[str, Family]] = {}
    model_type: ClassVar[str]
    holds: ClassVar[str]
    """The models it is for, in words."""
    architectures: ClassVar[tuple[str, ...]]
    """What it can read; the first if config.json names none."""
    prefix: ClassVar[str]
    """Prefix of the base model's names; some published files leave it out."""
    ties: ClassVar[Mapping[str, str]] = {}
    """Copies that a file may hold of a tensor → the tensor."""
    old: ClassVar[Mapping[str, str]] = {}
    """Endings of names in old files → today's."""
    spare: ClassVar[str] = "(?!)"
    """Pattern of names that files may hold and the model does not use: buffers, heads of the pre-training."""

    def __init_subclass__(cls, model_type: str, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.model_type = model_type
        Family.registry[model_type] = cls()

    def claims(self, config: SingleStack.Config) -> bool:
        """Whether a model of this kind is written in this format, if in any."""
        raise NotImplementedError

    def read_config(self, entries: Entries, architecture: str) -> SingleStack.Config:
        """Ours from theirs; CheckpointError where no model here computes it."""
        raise NotImplementedError

    def write_config(self, config: SingleStack.Config) -> dict[str, Any]:
        """Theirs from a canonical one of ours, as near as the format comes to it."""
        raise NotImplementedError

    def rows(self, config: SingleStack.Config) -> Sequence[Row]:
        """The table of weights."""
        raise NotImplementedError

    def blanks(self, config: SingleStack.Config) -> Mapping[str, tuple[int, ...]]:
        """Tensors the format asks for and ours do without, by shape: left behind when read, zero when written."""
        return {}

    def take_config(self, entries: Entries) -> SingleStack.Config:
        """Ours from theirs, checked."""
        architecture = self._architecture(entries)
        if entries.values.get("quantization_config") is not None:
            raise CheckpointError(f"{entries.path}: quantised weights are not read; save the checkpoint without them")
        try:
            return canonical(self.read_config(entries, architecture))
        except CheckpointError:
            raise
        except ValueError as error:
            raise CheckpointError(f"{entries.path}: {error}") from None

    def give_config(self, config: SingleStack.Config) -> dict[str, Any]:
        """Theirs from ours; read back, it must be the same, or the format cannot express the model."""
        config = canonical(config)
        values = {"model_type": self.model_type, **self.write_config(config)}
        try:
            again = self.take_config(Entries(values))
        except CheckpointError as error:
            raise CheckpointError(f"a Hugging Face {self.model_type} checkpoint cannot express this: {error}") from None
        for path, (here, there) in config.diff(again).items():
            if not path.endswith("dropout"):
                raise self.refuse(path, here, repr(there))
        return values

    def today(self, name: str) -> list[str]:
        """The names that a tensor may have in files written today."""
        for ending, now in self.old.items():
            name = name.removesuffix(ending) + now if name.endswith(ending) else name
        return [name, self.prefix + name]

    def is_spare(self, name: str) -> bool:
        return re.fullmatch(self.spare, name.removeprefix(self.prefix)) is not None

    def expect(self, path: str, value: Config, kind: type[C]) -> C:
        """The value, if it is of the kind that the format holds there."""
        if not isinstance(value, kind):
            kinds = [kind] if kind.tag else kind.__subclasses__()
            raise self.refuse(path, value.tag, " or ".join(repr(kind.tag) for kind in kinds))
        return value

    def refuse(self, path: str, here: Any, there: str) -> CheckpointError:
        return CheckpointError(
            f"{path} is {here!r}, which a Hugging Face {self.model_type} checkpoint cannot express: there it is "
            f"{there}; only a model that keeps to that can be written"
        )

    def _architecture(self, entries: Entries) -> str:
        given = entries.values.get("architectures") or [self.architectures[0]]
        if not isinstance(given, list) or len(given) != 1 or given[0] not in self.architectures:
            raise entries.wrong("architectures", given, f"one of {', '.join(self.architectures)}")
        return given[0]


def family_of(entries: Entries) -> Family:
    model_type = entries.values.get("model_type")
    if not isinstance(model_type, str) or model_type not in Family.registry:
        raise entries.wrong("model_type", model_type, f"one of {', '.join(sorted(Family.registry))}")
    return Family.registry[model_type]


def family_for(config: SingleStack.Config) -> Family:
    for family in reversed(Family.registry.values()):  # a format that extends another is defined after it
        if family.claims(config):
            return family
    known = "; ".join(f"{family.model_type}: {family.holds}" for family in Family.registry.values())
    raise CheckpointError(
        f"model is {config.tag!r} with stack.position {config.stack.position.tag!r}, which no Hugging Face format here "
        f"can express; those are {known}"
    )
