"""The alphabet: every registered kind of every family, with its fields and their defaults."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from tables import code, first_lines, table

from sublayer.nas import supernet
from sublayer.nn.attention import Kernel, Pattern, Span
from sublayer.nn.config import Config
from sublayer.nn.embedding import Embedding, Head
from sublayer.nn.memory import Memory
from sublayer.nn.memory.compressor import Compressor
from sublayer.nn.model import Model
from sublayer.nn.part import Part
from sublayer.nn.position import Position
from sublayer.nn.residual import Add, Norm, Residual
from sublayer.nn.stack import Stack

assert supernet  # whose stack is one of the kinds
FAMILIES = (
    *(Part, Kernel, Pattern, Span, Memory, Compressor, Position),
    *(Residual, Norm, Add, Embedding, Head, Stack, Model),
)
INTRODUCTION = (
    "Every kind of every family: its name is what a config file or an override takes, as in `position=rotary`."
)


def page() -> str:
    sections = ["# The alphabet", INTRODUCTION]
    for owner in FAMILIES:
        base = owner.Config
        sections += [f"## {base.family}", first_lines(inspect.getmodule(owner))]
        for tag, config in sorted(base.registry.items()):
            if config.__module__.startswith("sublayer."):
                sections += [f"### {tag} {{ #{base.family}-{tag} }}", first_lines(config.owner), *_fields(config)]
    return "\n\n".join(sections) + "\n"


def _fields(config: type[Config]) -> Iterator[str]:
    rows = []
    for name, field in config.model_fields.items():
        default = _named(field.default)
        text = next((text[name] for text in map(_documented, config.__mro__) if name in text), "")
        rows.append((f"`{name}`", _type(field.annotation), "required" if field.is_required() else code(default), text))
    if rows:
        yield table(("field", "type", "default", "meaning"), rows)


def _named(default: Any) -> Any:
    """A default as it is typed: a kind by its name alone where nothing else is given, as in `window`."""
    if isinstance(default, tuple):
        return [_named(one) for one in default]
    if isinstance(default, dict):
        return {name: _named(one) for name, one in default.items()}
    if not isinstance(default, Config):
        return default
    given = {name: _named(getattr(default, name)) for name in sorted(default.model_fields_set - {"kind"})}
    return {"kind": default.tag, **given} if given else default.tag


@cache
def _documented(config: type) -> dict[str, str]:
    """Field → the string under it, in one class's own source."""
    if not config.__module__.startswith("sublayer."):
        return {}
    body = ast.parse(textwrap.dedent(inspect.getsource(config))).body[0].body
    return {
        field.target.id: " ".join(ast.literal_eval(text.value).split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def _type(annotation: Any) -> str:
    """A field's type in words: int or none, position, `paper` or `exact`, list of int."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is None:
        family = getattr(annotation, "family", "")
        return family or ("none" if annotation is NoneType else annotation.__name__)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (list, tuple):
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"table of {_type(inner[1])}"
    return " or ".join(_type(option) for option in inner)
