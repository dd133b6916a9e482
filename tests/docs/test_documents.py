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
from tests.reports import made

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
SITE = ("docs/index.md", *(f"docs/guides/{name}.md" for name in ("engineer", "researcher", "student")))
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
from sublayer.measurement import Reading, Worker, calibration, quiet, whole_models
from sublayer.nas import on_device

# The machine that runs tests is busy with others.
Reading.disturbed = None
quiet.Machine.disturbance = lambda self, threads: None
ask = Worker._ask
Worker._ask = lambda self, *args, **how: ask(self, *args, **{**how, "tolerance": float("inf")})
calibration.ENOUGH, whole_models.SHORT = 0, 0
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

quickstart.TEXT = quickstart.sublayer.__path__[0] + "/nn/**/*.py"
quickstart.SIZE = {"population": 5, "iterations": 1}
quickstart.CHOICES |= {"dim": "96|128", "f.inner": "128|256", "layout": "(sf)x1|(sf)x2"}
quickstart.TRAINING |= {"train.tokens": None, "train.steps": 4}
quickstart.WIDTHS, quickstart.MODELS = {2: (200,)}, 2
for time in ("first", "second"):
    print("the", time, "time")
    quickstart.main()
"""


def test_the_quickstart_runs_when_made_short(tmp_path):
    done = run(QUICK + SHORT, tmp_path, path=ROOT / "examples")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split("the second time")  # which goes on from what is there
    for output in (first, second):
        for shown in ("by hand 1", "searched 1", "test bits/byte", "report.html", "class Reader:"):
            assert shown in output
    for shown in ("The budget", "within it at other depths", "the largest within the budget"):
        assert shown in first
    assert (tmp_path / "quickstart" / "report.html").stat().st_size > 500_000


FEW = """
import super_resolution

super_resolution.STEPS, super_resolution.IMAGES, super_resolution.SHOWN = 10, 400, 2
super_resolution.main()
"""


def test_super_resolution_runs_when_made_short(tmp_path):
    done = run(FEW, tmp_path, path=ROOT / "examples")
    assert done.returncode == 0, done.stderr
    assert "bits/dim beside its own small image" in done.stdout
    assert (tmp_path / "super_resolution.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("document", [*DOCUMENTS, *SITE])
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


CHECKED = """
import sublayer
from sublayer.keys import split
from sublayer.nas import spaces
from sublayer.training import TrainConfig


def check(changes):
    model, of = split(changes)
    TrainConfig().but(of["train"])
    assert not of["data"]
    return model


def search(name, data, out, changes, rules=(), **how):
    spaces.read(name, check(changes), rules)
    sys.exit()


def compare(variants, data, out, changes, **how):
    assert len({variant.base.but({**check(changes), **variant.changes}).hash for variant in variants}) == len(variants)
    sys.exit()


def compare_lengths(variants, data, out, changes, lengths, **how):
    assert len(lengths) > 1
    compare(variants, data, out, changes)


def race(*names, changes, **how):
    assert all(sublayer.config(name, check(changes)) for name in names)
    sys.exit()


def train(name, data, out, changes, **how):
    assert sublayer.config(name, check(changes))
    sys.exit()


sublayer.search, sublayer.compare, sublayer.race, sublayer.train = search, compare, race, train
sublayer.compare_lengths = compare_lengths
sublayer.report = sublayer.load = sublayer.evaluate = lambda *words, **how: sys.exit()
"""
"""Commands at the size of real work: their words, keys, choices and options are read, and nothing is run."""


def test_the_code_of_the_site_runs(tmp_path):
    """Python of each page from top to bottom; then its commands, of which those that would take long are only read."""
    made.search(tmp_path / "searches" / "mine", trials=0)
    session, typed = ["import os, sys", "os.environ['SUBLAYER_NATIVE'] = '0'"], []
    for document in SITE:
        save(document, tmp_path)
        session += [block.body for block in blocks(document) if block.language == "python" and not block.name]
        commands = [words for block in blocks(document) for words in block.commands if words[0] not in FOR_THE_READER]
        assert all((tmp_path / words[1]).exists() for words in commands if words[0] == "python")
        typed += [words[1:] for words in commands if words[0] == "sublayer" and words[1] != "runs"]
    code = "\n".join([*session, CHECKED, EACH])
    done = run(code, tmp_path, *map(shlex.join, typed))
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def cards():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        import cards

        yield cards


@pytest.fixture(scope="module")
def pages(cards):
    """The generated pages of the site, by their names in docs/cards."""
    return cards.cards()


def test_the_tables_of_the_readme_are_current(cards):
    assert cards.readme(read("README.md")) == read("README.md"), STALE


def test_the_picture_is_current(cards):
    assert cards.picture.family() == read("docs/images/family.svg"), STALE


def test_every_paper_has_a_card(cards, pages):
    ours = cards.family.names()
    assert {f"{name}/index.md" for name in ours} == {page for page in pages if page.endswith("/index.md")}
    for name in ours:
        page, source = pages[f"{name}/index.md"], f"source/{cards.family.module(name)}.md"
        for part in (f"# {name}\n", "<svg", "## The paper in code", "## Cost", "## Claims", "## Hyperparameters"):
            assert part in page
        assert f"]({name}/index.md)" in pages["index.md"]
        assert re.search(r"\(https://arxiv\.org/abs/\d{4}\.\d{5}\)", page) or "arXiv" not in page
        assert f"](../{source})" in page
        assert f"[{name}](../{name}/index.md)" in pages[source]


def test_a_card_shows_its_parent_and_what_is_saved(cards):
    page = cards.card("par-base")
    assert "| `params` | 199,840,218 | 199,840,218 |" in page
    assert page.count("<svg") == 2  # the parent's row, and its own
    assert page.index("`(sf)x16`, 32 sublayers") < page.index("`(sfff)x6 (f)x8`, 32 sublayers")
    assert "self-attention: [multihead](../alphabet.md#part-multihead), heads 8" in page
    assert "| FLOPs | 26.6 G | 16.2 G | −39" in page
    assert "[transformer-xl-base](../transformer-xl-base/index.md) › **par-base**" in page


def test_keys_of_a_card_can_be_typed(cards):
    for name in cards.family.names():
        config = sublayer.config(name)
        table = cards.card(name).partition("## What it changes")[2].partition("##")[0]
        changed = re.findall(r"^\| `(\S+)` \| .* \| `.*` \|$", table, re.MULTILINE)
        wrong = [key for key in changed if key != "kind" and config.locate(key, config.dump()) is None]
        assert wrong == []


def test_results_that_were_run_again_are_on_a_card_or_linked_from_it(cards):
    assert "| Feedback | 100.0 | 99.7 ± 0.7 |" in cards.card("feedback")
    assert "on the card of [feedback](../feedback/index.md)" in cards.card("feedback-tasks")
    assert "No result of this paper has been run again here yet" in cards.card("gpt2")


def test_the_menu_is_the_tree_of_the_family(cards, pages):
    text = read("mkdocs.yml")
    assert cards.menu(text) == text, STALE
    entries = re.findall(r"^( *)- (?:([^:\n]+):)?(?: ?(\S+\.md))?$", text.partition("\nnav:")[2], re.MULTILINE)
    deep = {title: len(space) for space, title, _ in entries}
    assert deep["transformer-lm"] < deep["gpt2"] < deep["llama"]
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    whole = {page for page in written if not page.startswith("cards/")} | {f"cards/{name}" for name in pages}
    assert sorted(page for _, _, page in entries if page) == sorted(whole)


def test_the_alphabet_lists_every_kind(pages):
    from sublayer.nn.position import Position

    page = pages["alphabet.md"]
    # Other tests in this process may have registered kinds of their own.
    ours = [tag for tag, kind in Position.Config.registry.items() if kind.__module__.startswith("sublayer.")]
    assert ours
    assert all(f"#position-{tag}" in page for tag in ours)
    assert "| `clamp` | int or none | — | Distances beyond this share one vector" in page
    assert '`["window", {"kind": "causal", "of": "global"}]`' in page  # the members of a union


def test_the_patterns_are_drawn(cards, pages):
    from xml.etree import ElementTree

    drawn = re.findall(r"<svg.*?</svg>", pages["patterns.md"])
    assert len(drawn) == 4
    for one in drawn:
        root = ElementTree.fromstring(one)
        assert all(float(text.get("x", "")) < float(root.get("width", "")) for text in root.iter() if text.get("x"))
    windowed = "\n".join(cards.patterns.of_model("mine", sublayer.config("gpt2", {"s.pattern": "window"})))
    assert windowed.startswith("## Who sees whom")
    assert windowed.count("<svg") == 1
    assert not list(cards.patterns.of_model("gpt2", sublayer.config("gpt2")))


def links(text: str) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    return {link for link in found if not link.startswith(("http://", "https://", "mailto:"))}


def test_no_link_is_broken(pages):
    whole = {Path("docs/cards") / name: text for name, text in pages.items()}
    files = [ROOT / "CHANGELOG.md", *(ROOT / name for name in DOCUMENTS), *(ROOT / "docs").rglob("*.md")]
    whole |= {file.relative_to(ROOT): file.read_text(encoding="utf-8") for file in files}
    broken = []
    for page, text in whole.items():
        for link in links(text):
            target = Path(os.path.normpath(page.parent / link.split("#")[0])) if link.split("#")[0] else page
            if target not in whole and not (ROOT / target).exists():
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
