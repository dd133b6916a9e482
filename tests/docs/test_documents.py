"""The documents say what is so: their code runs as written, their tables are current, their links lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

import sublayer

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
STALE = "run: python docs/cards.py"
FOR_THE_READER = {"make", "pip", ".venv/bin/pre-commit"}
"""Commands that set a machine up; every other command of a document is run."""


@dataclass(frozen=True)
class Block:
    language: str
    body: str

    @property
    def name(self) -> str | None:
        """The file it is to be saved as, which its first line says."""
        said = re.match(r"# (\S+\.(?:py|toml))\n", self.body)
        return said[1] if said else None

    @property
    def commands(self) -> list[list[str]]:
        return [shlex.split(line, comments=True) for line in self.body.splitlines()] if self.language == "bash" else []


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str) -> list[Block]:
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", read(document), re.DOTALL | re.MULTILINE)]


def save(document: str, folder: Path) -> None:
    for block in blocks(document):
        if block.name:
            (folder / block.name).write_text(block.body, encoding="utf-8")


def run(code: str, folder: Path, *words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A Python process in a folder, as a user's would be."""
    extra = {"SUBLAYER_CACHE": str(folder / "cache")} | ({} if path is None else {"PYTHONPATH": str(path)})
    command = [sys.executable, *(("-c", code) if code else ()), *words]
    return subprocess.run(command, cwd=folder, env={**os.environ, **extra}, capture_output=True, text=True, check=False)


QUICK = """
import sys

import sublayer.nas
from sublayer.measurement import Reading, Worker, quiet
from sublayer.nas import on_device

# The machine that runs tests is busy with others.
Reading.disturbed = None
quiet.Machine.disturbance = lambda self, threads: None
ask = Worker._ask
Worker._ask = lambda self, *args, **how: ask(self, *args, **{**how, "tolerance": float("inf")})
on_device.LEARNED, on_device.CALIBRATED = 4, 2
sys.modules["sublayer.nas.search"].MEASURED_MODELS = 1
"""
"""What is measured is measured a few times instead of until it is exact, and few models are."""
EACH = """
import sys, shlex
from sublayer.cli import main
for line in sys.argv[1:]:
    try:
        main(shlex.split(line))
    except SystemExit as end:
        if end.code:
            sys.exit(f"sublayer {line} ends with {end.code}")
"""


def test_the_python_of_the_readme_runs_from_top_to_bottom(tmp_path):
    session = "\n".join(block.body for block in blocks("README.md") if block.language == "python")
    done = run(session, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(sff)x5 (f)x9 " in done.stdout
    assert (tmp_path / "my-gpt2" / "model.safetensors").exists()


@pytest.mark.parametrize(
    "block", [block for block in blocks("README.md") if ["sublayer"] in [w[:1] for w in block.commands]]
)
def test_the_commands_of_the_readme_run(block, tmp_path):
    save("README.md", tmp_path)
    assert all(words[0] == "sublayer" for words in block.commands)
    done = run(QUICK + EACH, tmp_path, *(shlex.join(words[1:]) for words in block.commands))
    assert done.returncode == 0, done.stderr


def contributed() -> list[list[str]]:
    commands = [words for block in blocks("CONTRIBUTING.md") for words in block.commands]
    return [words for words in commands if words[0] in ("python", "sublayer")]


@pytest.mark.parametrize("words", contributed(), ids=" ".join)
def test_each_command_of_contributing_runs_by_itself(words, tmp_path):
    save("CONTRIBUTING.md", tmp_path)
    done = run(EACH, tmp_path, shlex.join(words[1:])) if words[0] == "sublayer" else run("", tmp_path, *words[1:])
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_broken_law_that_contributing_quotes_is_the_one_that_breaks(tmp_path):
    save("CONTRIBUTING.md", tmp_path)
    part = tmp_path / "my_parts.py"
    right, wrong = "return 3 * slot.dim * self.inner", "return 2 * slot.dim * self.inner"
    assert right in part.read_text(encoding="utf-8")
    part.write_text(part.read_text(encoding="utf-8").replace(right, wrong), encoding="utf-8")
    done = run("", tmp_path, "laws.py")
    (quoted,) = (block.body.strip() for block in blocks("CONTRIBUTING.md") if block.language == "text")
    assert done.returncode == 1
    assert done.stderr.strip().endswith(quoted)


def test_an_installed_plugin_needs_no_option(tmp_path):
    """What an installer leaves behind: the module, and a folder that names its entry points."""
    save("CONTRIBUTING.md", tmp_path)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = tmp_path / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    told.mkdir(parents=True)
    (tmp_path / "my_parts.py").rename(tmp_path / "site" / "my_parts.py")
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = ["[sublayer.plugins]"]
    lines += [f"{name} = {module}" for name, module in project["entry-points"]["sublayer.plugins"].items()]
    (told / "entry_points.txt").write_text("\n".join(lines) + "\n")
    done = run(EACH, tmp_path, "show gpt2 f=tanh_glu", path=tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert 'kind = "tanh_glu"' in done.stdout


SHORT = """
import quickstart

quickstart.TEXT = quickstart.sublayer.__path__[0] + "/**/*.py"
quickstart.SIZE = {"population": 5, "iterations": 1}
quickstart.CHOICES |= {"dim": "96|128", "f.inner": "128|256", "layout": "(sf)x1|(sf)x2"}
quickstart.TRAINING |= {"train.tokens": None, "train.steps": 4}
for time in ("first", "second"):
    print("the", time, "time")
    quickstart.main()
"""


def test_the_quickstart_runs_when_made_short(tmp_path):
    done = run(QUICK + SHORT, tmp_path, path=ROOT / "examples")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split("the second time")  # which goes on from what is there
    for output in (first, second):
        for shown in ("at most", "chosen:", "by hand", "searched", "bits/byte", "report.html", "class Reader:"):
            assert shown in output
    assert (tmp_path / "quickstart" / "report.html").stat().st_size > 500_000


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_code_of_a_document_is_left_untried(document):
    for block in blocks(document):
        if block.language == "bash":
            subprocess.run(["bash", "-n"], input=block.body, text=True, check=True)
            assert {words[0] for words in block.commands} <= FOR_THE_READER | {"python", "sublayer"}
        elif document == "CONTRIBUTING.md":
            assert block.name or block.language == "text"
        else:
            assert block.language in ("python", "toml")
    saved = {block.name for block in blocks(document) if block.name}
    named = " ".join(word for block in blocks(document) for words in block.commands for word in words)
    assert all(name.removesuffix(".py") in named for name in saved - {"pyproject.toml"})


@pytest.fixture
def cards(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import cards

    return cards


def test_the_tables_of_the_readme_are_current(cards):
    assert cards.readme(read("README.md")) == read("README.md"), STALE


def test_the_picture_is_current(cards):
    assert cards.picture.family() == read("docs/images/family.svg"), STALE


def test_every_paper_has_a_card(cards):
    pages = cards.cards()
    assert {f"{name}.md" for name in sublayer.names()} == pages.keys() - {"index.md", "alphabet.md"}
    for name in sublayer.names():
        page = pages[f"{name}.md"]
        for part in (f"# {name}\n", "<svg", "## How to use", "## Cost", "## Hyperparameters"):
            assert part in page
        assert f"]({name}.md)" in pages["index.md"]
    assert "| `params` | 199,840,218 | 199,840,218 |" in pages["par-base.md"]


def test_the_alphabet_lists_every_kind(cards):
    from sublayer.nn.position import Position

    page = cards.cards()["alphabet.md"]
    # Other tests in this process may have registered kinds of their own.
    ours = [tag for tag, kind in Position.Config.registry.items() if kind.__module__.startswith("sublayer.")]
    assert ours
    assert all(f"#position-{tag}" in page for tag in ours)
    assert "| `clamp` | int or none | — | Distances beyond this share one vector" in page


def links(text: str) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    return {link for link in found if not link.startswith(("http://", "https://", "mailto:"))}


def test_no_link_is_broken(cards):
    pages = {Path("docs/cards") / name: text for name, text in cards.cards().items()}
    files = [ROOT / "CHANGELOG.md", *(ROOT / name for name in DOCUMENTS), *(ROOT / "docs").rglob("*.md")]
    pages |= {file.relative_to(ROOT): file.read_text(encoding="utf-8") for file in files}
    broken = []
    for page, text in pages.items():
        for link in links(text):
            target = Path(os.path.normpath(page.parent / link.split("#")[0])) if link.split("#")[0] else page
            if target not in pages and not (ROOT / target).exists():
                broken.append(f"{page}: {link}")
    assert not broken


def test_the_changelog_tells_of_this_version():
    text = read("CHANGELOG.md")
    assert re.search(rf"^## \[(Unreleased|{re.escape(sublayer.__version__)})\]", text, re.MULTILINE)
    assert tomllib.loads(read("pyproject.toml"))["project"]["version"] == sublayer.__version__


def test_decisions_are_numbered_without_gaps_and_listed():
    files = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        title = file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        assert f"- [{title}]({file.name})" in read("docs/decisions/index.md")
