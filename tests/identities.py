"""Counts where src/sublayer asks which kind a thing is instead of asking it what it can do.

    python tests/identities.py          prints the sites, one a line

A kind is a class that derives from another class of the package: a member of a family (`MultiHead`, `Rotary`), its
`Config`, an intermediate base (`SingleStack`), a kind of state (`Hidden`). A class with no parent in the package
(`Part`, `Model`, `Tokens`) is no kind, nor are the types of Python and PyTorch. A site is

- `isinstance(x, Kind)`, `issubclass(x, Kind)`, `case Kind():`
- `type(x) is Kind`, `type(x) in (Kind, …)`, `x.owner is Kind`, `TABLE[type(x)]`, `TABLE.get(type(x))`
- `x.tag == "kind"`, `x.kind == "kind"`, `data["kind"] == "kind"`, with the tag of a registered kind

outside the file that defines the kind, the fast paths (FAST) and interop.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any

import sublayer
from sublayer.nn.config import Config

ROOT = Path(sublayer.__file__).parent
FAST = (
    *("native/", "generation/native/", "nn/stack/native/", "nn/stack/unrolled/"),
    *("nn/attention/native.py", "nn/feedforward/fused.py", "nn/normed_linear.py"),
    *("nn/stack/planned.py", "nn/stack/planner.py"),
)
"""Fast paths: what each serves is a matter of concrete kinds, and it registers that in its own file."""
OTHER_LIBRARIES = ("interop/",)
"""Formats of other libraries are mappings from their kinds to ours."""


@dataclass(frozen=True)
class Site:
    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.code}"


def sites() -> list[Site]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if not file.startswith((*FAST, *OTHER_LIBRARIES)) and path.name != "__main__.py":  # whose import runs it
            found += in_source(path.read_text(encoding="utf-8"), file)
    return found


def in_source(text: str, file: str) -> list[Site]:
    """The sites of one file of the package."""
    module = importlib.import_module(
        ".".join(("sublayer", *Path(file).with_suffix("").parts)).removesuffix(".__init__")
    )
    tree = ast.parse(text)
    names = _names(tree, module)
    lines = text.splitlines()
    asking = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.pattern) and _asks(node, names, file)]
    return [Site(file, line, lines[line - 1].strip()) for line in sorted(node.lineno for node in asking)]


def _asks(node: ast.AST, names: dict[str, Any], file: str) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
            return _has_kind(kinds, names, file)
        case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]) | ast.Subscript(slice=key):
            return _is_type(key) and ast.unparse(key) != "type(self)"
        case ast.MatchClass(cls=kind):
            return _has_kind(kind, names, file)
        case ast.Compare(left=left, comparators=[right]):
            return (
                (_is_type(left) and _has_kind(right, names, file))
                or (_is_owner(left) and _has_kind(right, names, file))
                or (_is_tag(left) and _has_tag(right))
                or (_is_tag(right) and _has_tag(left))
            )
    return False


def _is_type(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"


def _is_owner(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "owner"


def _is_tag(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="tag" | "kind") | ast.Name(id="kind" | "tag"):
            return True
        case ast.Subscript(slice=ast.Constant(value="kind")):
            return True
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="kind"), *_]):
            return True
    return False


def _has_tag(node: ast.AST) -> bool:
    tags = {tag for family in _families() for tag in family.registry}
    return any(isinstance(one, ast.Constant) and one.value in tags for one in ast.walk(node))


def _has_kind(node: ast.AST, names: dict[str, Any], file: str) -> bool:
    """Whether an expression names a kind that another file defines; a parameter, not known here, does not."""
    try:
        value = eval(compile(ast.Expression(node), file, "eval"), {}, names)  # pyright: ignore[reportArgumentType]
    except (NameError, AttributeError):
        return False
    return any(is_kind(one) and inspect.getsourcefile(one) != str(ROOT / file) for one in _flat(value))


def _flat(value: Any) -> Iterator[type]:
    parts = value.__args__ if isinstance(value, UnionType) else value if isinstance(value, tuple | list | set) else ()
    for part in parts:
        yield from _flat(part)
    if isinstance(value, type):
        yield value


def is_kind(cls: type) -> bool:
    cls = cls.owner if issubclass(cls, Config) and "owner" in cls.__dict__ else cls
    parents = [base for base in cls.__mro__[1:] if base.__module__.startswith("sublayer.")]
    ours = cls.__module__.startswith("sublayer.") and not issubclass(cls, BaseException)
    return ours and bool(parents) and parents != [Config]


def _families() -> Iterator[type[Config]]:
    waiting = list(Config.__subclasses__())
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        yield cls


def _names(tree: ast.Module, module: ModuleType) -> dict[str, Any]:
    """Names as the file's functions see them, those imported inside functions and for type checkers included."""
    names = dict(vars(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sublayer"):
            source = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(source, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                names[alias.asname or alias.name] = getattr(source, alias.name)
    return names


if __name__ == "__main__":
    found = sites()
    print(*found, sep="\n")
    print(f"{len(found)} sites")
