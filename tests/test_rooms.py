"""Imports between the rooms of src/sublayer go one way, those inside functions and for type checkers included."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import sublayer

ROOT = Path(sublayer.__file__).parent
ORDER = (
    "files",
    "native",
    "nn",
    "plugins",
    "papers",
    "keys",
    "data",
    "runs",
    "evaluation",
    "objectives",
    "generation",
    "retrieval",
    "trained",
    "training",
    "executors",
    "measurement",
    "nas",
    "models",
    "comparison",
    "reproduction",
    "reports",
    "interop",
    "testing",
    "progress",
    "api",
    "cli",
)
"""A room imports from those before it."""
EXCEPTIONS: dict[tuple[str, str], str] = {}
"""Import against the order → why it is still there; one that is gone must go from here."""


@dataclass(frozen=True)
class Import:
    file: str
    line: int
    room: str
    of: str
    """The room imported from."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.room} imports from {self.of}"


def imports(tree: ast.AST, file: str) -> Iterator[Import]:
    """Imports of one file from other rooms; a name of the package itself (`sublayer.load`) is the api's."""
    room = Path(file).parts[0].removesuffix(".py")
    nodes = list(ast.walk(tree))
    modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    bound = any(name.split(".")[0] == "sublayer" for name in modules)
    for node in nodes:
        if isinstance(node, ast.Attribute) and not bound:
            continue  # `sublayer` is a variable there
        rooms = {name if name in ORDER else "api" for name in _names(node)} - {room}
        yield from (Import(file, node.lineno, room, of) for of in sorted(rooms))  # pyright: ignore[reportAttributeAccessIssue]


def _names(node: ast.AST) -> set[str]:
    """What a node takes from the package, by the first name after `sublayer`."""
    match node:
        case ast.ImportFrom(level=level) if level:
            raise AssertionError(f"line {node.lineno}: a relative import; write it in full")
        case ast.ImportFrom(module="sublayer"):
            names = {alias.name for alias in node.names}
        case ast.ImportFrom(module=str(module)) if module.startswith("sublayer."):
            names = {module.split(".")[1]}
        case ast.Import():
            names = {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("sublayer.")}
        case ast.Attribute(value=ast.Name(id="sublayer"), attr=name):
            names = {name}
        case _:
            names = set()
    return names - {"__version__"}


@cache
def all_imports() -> list[Import]:
    doors = ROOT / "__init__.py", ROOT / "__main__.py"
    files = [path for path in sorted(ROOT.rglob("*.py")) if path not in doors]
    return [
        one
        for path in files
        for one in imports(ast.parse(path.read_text(encoding="utf-8")), path.relative_to(ROOT).as_posix())
    ]


def against(found: list[Import]) -> list[Import]:
    return [one for one in found if ORDER.index(one.of) > ORDER.index(one.room)]


def test_every_room_has_its_place_in_the_order():
    there = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - {"__init__", "__main__"} == {*ORDER}


def test_imports_go_one_way():
    wrong = [str(one) for one in against(all_imports()) if (one.room, one.of) not in EXCEPTIONS]
    assert not wrong, "\n".join(wrong)


def test_the_exceptions_are_those_there_are():
    assert {(one.room, one.of) for one in against(all_imports())} == EXCEPTIONS.keys()


@pytest.mark.parametrize(
    "code",
    [
        "from sublayer.training import train",
        "import sublayer.training.loop",
        "from sublayer import training",
        "def late():\n    from sublayer.training.loop import run",
        "if TYPE_CHECKING:\n    from sublayer.training import Trainee",
        "import sublayer\nsublayer.training.train",
    ],
)
def test_every_way_to_import_is_seen(code):
    (found,) = imports(ast.parse(code), "nn/part.py")
    assert (found.room, found.of) == ("nn", "training")
    assert against([found])
    assert not against(list(imports(ast.parse(code), "cli/train.py")))


def test_the_package_s_own_names_are_the_api_s():
    code = "import sublayer\nsublayer.load, sublayer.__version__\nfrom sublayer import config"
    assert [one.of for one in imports(ast.parse(code), "reports/page.py")] == ["api", "api"]


def test_contributing_states_the_order():
    document = " ".join((ROOT.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    assert f"`{' → '.join(ORDER)}`" in document
