"""The family as a tree: where each paper's page is, who its parents and children are, and the site's navigation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import sublayer
from sublayer.papers import registry

DOCS = Path(__file__).parent
GUIDES = (("For engineers", "engineer"), ("For researchers", "researcher"), ("For students", "student"))


def names() -> list[str]:
    """The package's own papers, parents before children; not an installed plug-in's."""
    return [name for name in sublayer.names() if registry.find(name).change.__module__.startswith("sublayer.")]


def page(name: str) -> str:
    """A paper's page in docs/cards. It has a folder of its own, so that a menu can open it and its children alike."""
    return f"{name}/index.md"


def link(name: str) -> str:
    """To a paper, from the page of another."""
    return f"[{name}](../{page(name)})"


def ancestors(name: str) -> list[str]:
    """From the root to its parent."""
    parent = registry.find(name).parent
    return [] if parent is None else [*ancestors(parent), parent]


def children(name: str | None) -> list[str]:
    ours = set(names())
    return [child for child in registry.children(name) if child in ours]


def module(name: str) -> str:
    """The file that defines it: par, for papers/par.py."""
    return registry.find(name).change.__module__.rpartition(".")[2]


def file(name: str) -> str:
    return f"src/{registry.find(name).change.__module__.replace('.', '/')}.py"


def key(path: str) -> str:
    """A path of a config as it is typed: `s.heads` for stack.alphabet.s.heads, `position` for stack.position.kind."""
    return re.sub(r"\b(stack|alphabet|vary)\.", "", path.removesuffix(".kind"))


def cited(cite: str) -> str:
    """A citation whose arXiv number is a link."""
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", cite)


def sources() -> dict[str, str]:
    """The files of all papers as pages."""
    found = {module(name): registry.find(name).change for name in names()}
    return {f"source/{name}.md": _source(name, change) for name, change in sorted(found.items())}


def _source(name: str, change: object) -> str:
    code = inspect.getsource(inspect.getmodule(change) or inspect)
    defined = [one for one in names() if module(one) == name]
    papers = ", ".join(link(one) for one in defined)
    return f"# papers/{name}.py\n\nDefines {papers}.\n\n```python\n{code.rstrip()}\n```\n"


def navigation() -> str:
    """The menu, for mkdocs.yml."""
    guides = [f"      - {title}: guides/{name}.md" for title, name in GUIDES]
    lines = ["nav:", "  - Home: index.md", "  - Guides:", "      - guides/index.md", *guides]
    lines += ["  - The family:", "      - cards/index.md", *_branch(None, 3)]
    lines += ["      - Source files:", *(f"          - cards/{source}" for source in sources())]
    lines += ["  - Alphabet: cards/alphabet.md", "  - Who sees whom: cards/patterns.md", "  - Glossary: glossary.md"]
    lines += ["  - Several machines: distribution.md", "  - Decisions:", "      - decisions/index.md"]
    lines += [f"      - decisions/{path.name}" for path in sorted((DOCS / "decisions").glob("0*.md"))]
    return "\n".join(lines)


def _branch(name: str | None, depth: int) -> Iterator[str]:
    """Children in the order of their names, each before its own children."""
    space = "  " * depth
    for child in children(name):
        if children(child):
            yield f"{space}- {child}:"
            yield f"{space}    - cards/{page(child)}"
            yield from _branch(child, depth + 2)
        else:
            yield f"{space}- {child}: cards/{page(child)}"
