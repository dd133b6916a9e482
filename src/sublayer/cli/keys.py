"""Texts of `--help`, read from the sources without importing them: the keys of `train.…` and `data.…`, whose configs
would import torch, and the docstrings of verbs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = (
    ("train.", "training/config.py"),
    ("train.optimizer.", "training/optimizer.py"),
    ("train.schedule.", "training/schedule.py"),
    ("data.", "data/dataset.py"),
    ("data.splits.", "data/splits.py"),
    ("data.tokenizer.", "data/tokenizer"),
    ("data.", "data/images/images.py"),
    ("data.source.", "data/images/shapes.py"),
    ("data.", "data/tasks"),
)
WORDS = {"None": "null", "True": "true", "False": "false", "()": "[]"}


def page() -> str:
    """A list with each key, its default and its meaning, in Markdown, where < begins a tag."""
    items = (f"- {key}={default}" + (f": {about}" if about else "") for key, default, about in keys())
    return "\n".join(item.replace("<", "\\<") for item in items)


def about(function: str) -> str:
    """The docstring of a verb without its parameters: `train:resume` is the function `resume` of cli/train.py."""
    module, _, name = function.partition(":")
    tree = ast.parse((ROOT / "cli" / f"{module}.py").read_text(encoding="utf-8"))
    (verb,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    return (ast.get_docstring(verb) or "").split("\n\nParameters\n")[0]


def keys() -> Iterator[tuple[str, str, str]]:
    """Key, default and meaning; the kind stands beside the default of a field that only one kind has."""
    for prefix, source in SOURCES:
        path = ROOT / source
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            for config, kind in _configs(ast.parse(file.read_text(encoding="utf-8"))):
                for name, default, about in _fields(config):
                    own = f" ({kind})" if kind and (prefix.count(".") > 1 or path.is_dir()) else ""
                    yield prefix + name, default + own, about


def _configs(tree: ast.Module) -> Iterator[tuple[ast.ClassDef, str]]:
    """The Config classes of a file, with the name of their kind."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            inner = [child for child in node.body if isinstance(child, ast.ClassDef) and child.name == "Config"]
            for config in [node] if node.name.endswith("Config") else inner:
                tags = [ast.literal_eval(word.value) for word in config.keywords if word.arg == "tag"]
                yield config, tags[0] if tags else ""


def _fields(config: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    for node, after in zip(config.body, [*config.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            about = " ".join(str(after.value.value).split()) if documented else ""  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
            yield node.target.id, _default(node.value), about


def _default(value: ast.expr) -> str:
    """As typed on the command line."""
    for word in value.keywords if isinstance(value, ast.Call) else []:
        if word.arg == "default":
            return _default(word.value)
    text = ast.unparse(value)
    if text.endswith(".Config()"):
        return text.removesuffix(".Config()").lower()
    return WORDS.get(text, text.strip("'"))
