"""Config: what a model is, as data.

Peculiar here:
- a class owns its `Config`; `class Config(Position.Config, tag="alibi")` enters it in its family's phone book
- the phone book is open: a field of a family takes an instance, a name, or a dict with `kind`, of any registered class,
  and always dumps the concrete class (a pydantic union would be closed, a base-typed field would drop fields)
- every error names the path, in one line
- `but` and `override` reach inside by dotted path; loading never imports anything
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializationInfo,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic._internal._model_construction import ModelMetaclass
from pydantic_core import core_schema


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"expected a number, got {str(value).lower()}")
    return value


Count = Annotated[int, BeforeValidator(_no_truth), Field(ge=1)]
"""How many: at least one."""
Rate = Annotated[float, Field(ge=0, lt=1)]
"""A probability of leaving out: from 0 to below 1."""
Positive = Annotated[float, Field(gt=0)]
WHOLE = "whole"
"""Context of a dump that has every field, also those in `added`."""


class ConfigError(ValueError):
    """A configuration that cannot be: the path, the value, what was expected, the remedy; one line."""


class UnknownKindError(ConfigError):
    """A kind that no class here has: a typing error, or a plug-in that is not loaded."""


class _ConfigType(ModelMetaclass):
    """Tells a nested Config which class owns it, and turns pydantic's errors into one-line ConfigErrors."""

    owner: type
    tag: str

    def __set_name__(cls, owner: type, name: str) -> None:  # noqa: N805 (a metaclass)
        if name == "Config":
            cls.owner = owner

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 (a metaclass)
        try:
            return super().__call__(*args, **kwargs)
        except ValidationError as error:
            raise as_config_error(error, cls.tag) from None


class Config(BaseModel, metaclass=_ConfigType):
    """Frozen, typed, tagged by `kind`; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True, allow_inf_nan=False)

    family: ClassVar[str] = ""
    """What the class is a kind of; the base Config of a family sets it."""
    tag: ClassVar[str] = ""
    """The name of this kind in its family."""
    registry: ClassVar[dict[str, type[Config]]] = {}
    """The family's phone book, shared by all its kinds."""
    owner: ClassVar[type]
    """The class this is the Config of."""
    renamed: ClassVar[dict[str, str]] = {}
    """Old name of a field → its name now; files that were written before go on loading."""
    added: ClassVar[frozenset[str]] = frozenset()
    """Fields that came later: left out of a dump while they have their default, so that old hashes stay."""
    shortcuts: ClassVar[tuple[str, ...]] = ()
    """Fields whose insides can be named without naming the field: `s.heads` for `stack.alphabet.s.heads`."""

    if TYPE_CHECKING:  # pydantic adds it to frozen models, where type checkers do not see it

        def __hash__(self) -> int: ...

    def __init_subclass__(cls, tag: str = "", family: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if family:
            cls.family, cls.registry = family, {}
        if tag:
            cls.tag = tag

    @classmethod
    def __pydantic_init_subclass__(cls, tag: str = "", **kwargs: Any) -> None:
        if tag:
            known = cls.registry.get(tag)
            if known is not None and known.__qualname__ != cls.__qualname__:
                raise ConfigError(f"{cls.family} kind {tag!r} is taken by {known.__qualname__}; choose another tag")
            cls.registry[tag] = cls

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        if cls.tag:
            return handler(source)
        return core_schema.no_info_plain_validator_function(
            cls._look_up,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value, info: value.model_dump(mode="json", context=info.context), info_arg=True
            ),
        )

    @classmethod
    def _look_up(cls, value: Any) -> Config:
        """An instance, a name, or a dict with `kind`, as the registered class."""
        if isinstance(value, Config):
            if isinstance(value, cls):
                return value
            raise ValueError(f"{value.tag!r} is a {value.family}, expected a {cls.family}")
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, Mapping) or "kind" not in value:
            raise ValueError(f"expected a {cls.family}: a name ({', '.join(cls.registry)}), or a table with 'kind'")
        return cls.kind_of(value["kind"]).model_validate(value)

    @classmethod
    def kind_of(cls, name: Any) -> type[Config]:
        if not isinstance(name, str) or name not in cls.registry:
            raise UnknownKindError(unknown(f"{cls.family} kind", str(name), cls.registry))
        return cls.registry[name]

    @model_validator(mode="before")
    @classmethod
    def _check_kind(cls, data: Any) -> Any:
        if isinstance(data, str) and data == cls.tag:
            return {}
        if not isinstance(data, Mapping):
            return data
        data = {cls.renamed.get(key, key): value for key, value in data.items()}
        if "kind" not in data:
            return data
        if data["kind"] != cls.tag:
            raise ValueError(f"expected kind {cls.tag!r}, got {data['kind']!r}")
        return {key: value for key, value in data.items() if key != "kind"}

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: Any, info: SerializationInfo) -> dict[str, Any]:
        fields = handler(self)
        for name in () if info.context == WHOLE else self.added:
            if getattr(self, name) == type(self).model_fields[name].default:
                del fields[name]
        return {"kind": self.tag, **fields}

    # Reading and writing

    @classmethod
    def parse(cls, data: Any, path: str = "") -> Self:
        """A config from plain data; `path` is put before every error's path."""
        try:
            return cls._look_up(data) if not cls.tag else cls.model_validate(data)  # pyright: ignore[reportReturnType]
        except ValidationError as error:
            raise as_config_error(error, path) from None
        except RecursionError:
            raise ConfigError(f"{path or cls.family}: nested too deeply; a config is a few levels deep") from None
        except ValueError as error:
            kind = UnknownKindError if isinstance(error, UnknownKindError) else ConfigError
            raise kind(f"{path}: {error}" if path else str(error)) from None

    def dump(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        return json.dumps(self.dump(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.parse(_read(json.loads, text, "JSON"))

    def to_toml(self) -> str:
        """TOML has no null: a field that is None is left out, and comes back as its default, None."""
        import tomli_w

        return tomli_w.dumps(_without_none(self.dump()))

    @classmethod
    def from_toml(cls, text: str) -> Self:
        import tomllib

        return cls.parse(_read(tomllib.loads, text, "TOML"))

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON: the same for the same model, on any machine."""
        canonical = json.dumps(self.dump(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def diff(self, other: Config) -> dict[str, tuple[Any, Any]]:
        """Dotted path → (here, there), for every leaf that differs; a side without the leaf shows None."""
        here, there = dict(_leaves(self.dump())), dict(_leaves(other.dump()))
        paths = [*here, *(path for path in there if path not in here)]
        return {path: (here.get(path), there.get(path)) for path in paths if here.get(path) != there.get(path)}

    # Changing

    def but(self, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> Self:
        """The same config with some values changed: `base.but({"s.heads": 4}, dim=256)`."""
        return self.override({**(changes or {}), **fields})

    def override(self, changes: Mapping[str, Any], path: str = "") -> Self:
        """Apply dotted `changes` one after another, then check the whole; `path` is put before every error's."""
        data = self.model_dump(mode="json", context=WHOLE)
        for key, value in changes.items():
            self._change(data, key, value, path)
        return type(self).parse(data, path)

    def _change(self, data: dict[str, Any], key: str, value: Any, prefix: str) -> None:
        path = self.locate(key, data)
        if path is None:
            before = f"{prefix}." if prefix else ""
            raise ConfigError(unknown("key", before + key, [before + known for known in self.keys()]))
        self.assign(data, path, value.dump() if isinstance(value, Config) else value)

    def assign(self, data: dict[str, Any], path: list[str], value: Any) -> None:
        """Put a value at a full path of this config's plain data; a class with rules of its own overrides this."""
        if path == ["kind"] and isinstance(value, str) and value in self.registry:
            for name in data.keys() - self.registry[value].model_fields.keys():  # what only this kind has
                del data[name]
        inner, around, rest = getattr(self, path[0], None), data, path
        if isinstance(inner, Mapping) and len(path) > 1:  # configs by name
            inner, around, rest = inner.get(path[1]), data[path[0]], path[1:]
        if len(rest) > 1 and isinstance(inner, Config) and _table(around, rest[0]).get("kind") == inner.tag:
            around[rest[0]] = _table(around, rest[0])
            inner.assign(around[rest[0]], rest[1:], value)
        else:
            put(data, path, value)

    def locate(self, key: str, data: Mapping[str, Any]) -> list[str] | None:
        """The full path of a key, looking through the shortcuts; None where nothing has that name."""
        head, *rest = key.split(".")
        head = self.renamed.get(head, head)
        if head in type(self).model_fields:
            inner = getattr(self, head)
            if rest and isinstance(inner, Config) and (table := _table(data, head)).get("kind") == inner.tag:
                found = inner.locate(".".join(rest), table)
                return [head, *(found or rest)]
            return [head, *rest]
        for shortcut in self.shortcuts:
            inner = getattr(self, shortcut)
            if isinstance(inner, Mapping) and head in data.get(shortcut, {}):
                return [shortcut, head, *rest]
            if isinstance(inner, Config) and (found := inner.locate(key, _table(data, shortcut))):
                return [shortcut, *found]
        return None

    def keys(self) -> list[str]:
        """Every key that `override` takes, shortcuts as they may be written."""
        names: list[str] = []
        for field in type(self).model_fields:
            inner = getattr(self, field)
            prefix = "" if field in self.shortcuts else f"{field}."
            names += [] if field in self.shortcuts else [field]
            if isinstance(inner, Config):
                names += [prefix + name for name in inner.keys()]  # noqa: SIM118 (a method)
            elif isinstance(inner, Mapping):
                for letter, config in inner.items():
                    if isinstance(config, Config):
                        names += [f"{prefix}{letter}.{name}" for name in config.keys()]  # noqa: SIM118 (a method)
        return names


def put(data: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a leaf of nested plain data; a kind given by its name alone becomes a table."""
    for depth, step in enumerate(path[:-1]):
        if isinstance(data.get(step), str):
            data[step] = {"kind": data[step]}
        if data.get(step) is None:
            data[step] = {}
        if not isinstance(data[step], dict):
            raise ConfigError(f"{'.'.join(path)}: {'.'.join(path[: depth + 1])} is {data[step]!r}, which has no fields")
        data = data[step]
    data[path[-1]] = value


def as_config_error(error: ValidationError, path: str = "") -> ConfigError:
    """pydantic's error in one line, as a ConfigError of its own class where the first finding is one."""
    cause = error.errors(include_url=False)[0].get("ctx", {}).get("error")
    return (UnknownKindError if isinstance(cause, UnknownKindError) else ConfigError)(describe(error, path))


def describe(error: ValidationError, path: str = "") -> str:
    """pydantic's errors in one line: `path: what is wrong`, the first in full and a count of the rest."""
    findings = error.errors(include_url=False, include_context=False)
    first = findings[0]
    where = ".".join(str(step) for step in ((path,) if path else ()) + tuple(first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "there is no such field"
    elif first["type"] == "missing":
        message = "a value is required"
    elif not first["type"].startswith("value_error"):
        message = f"{message[0].lower()}{message[1:]}, got {first['input']!r}"
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{where}: {message}{more}" if where else f"{message}{more}"


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """`unknown paper 'gtp2'; did you mean gpt2, …?`"""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"expected one of {', '.join(known)}"
    return f"unknown {what} {name!r}; {hint}"


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The value at a key, as a table: a kind may be given by its name alone."""
    value = data.get(key)
    return value if isinstance(value, dict) else {"kind": value}


def _read(loads: Any, text: str, form: str) -> Any:
    try:
        return loads(text)
    except ValueError as error:
        raise ConfigError(f"not valid {form}: {error}") from None
    except RecursionError:
        raise ConfigError(f"not valid {form}: nested too deeply; a config is a few levels deep") from None


def _leaves(data: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _leaves(value, f"{path}.{key}" if path else key)
    else:
        yield path, data


def _without_none(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_none(value) for key, value in data.items() if value is not None}
    if isinstance(data, list):
        return [_without_none(value) for value in data]
    return data
