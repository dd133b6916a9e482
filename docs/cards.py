"""Generate from the code: the method cards, the alphabet, the tables of the README, the picture.

python docs/cards.py        docs/cards/*.md (not in the repository), README.md, docs/images/family.svg
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import alphabet
import picture
import reproduced
from tables import code, first_lines, table

import sublayer
from sublayer.cli.words import short
from sublayer.nn.model import Cost, Model
from sublayer.papers import registry
from sublayer.testing import LAWS

ROOT = Path(__file__).parent.parent
FLOPS = "FLOPs are of one pass over 64 new tokens, with the memory full where there is one."


def cards() -> dict[str, str]:
    """File name → text, of every page."""
    intro = f"Each paper is a short diff against its parent. {FLOPS} See also [the alphabet](alphabet.md)."
    index = f"# Cards\n\n{intro}\n\n{family_table('{name}.md')}\n"
    return {"index.md": index, "alphabet.md": alphabet.page(), **{f"{name}.md": card(name) for name in _names()}}


def card(name: str) -> str:
    entry, config = registry.find(name), sublayer.config(name)
    sections = [
        f"# {name}",
        entry.story,
        f"{entry.cite}. Defined in `{_file(name)}`.",
        *_layouts(config),
        *_changes(entry, config),
        *_children(name),
        "## How to use",
        f"```bash\nsublayer show {name}\nsublayer show {name} --length 1 --json\n```",
        f'```python\nimport sublayer\n\nconfig = sublayer.config("{name}")\nmodel = config.build()\n```',
        "## Cost",
        _cost(config.cost()),
        *_facts(entry, config.cost()),
        *reproduced.sections(name),
        "## Hyperparameters",
        f"```toml\n{config.to_toml().rstrip()}\n```",
    ]
    return "\n\n".join(sections) + "\n"


def _layouts(config: Model.Config) -> Iterator[str]:
    for prefix, stack in config.stacks.items():
        yield f"{prefix.capitalize() or 'Layout'}: `{stack.layout}`"
        yield f'<div style="overflow-x: auto">{"".join(picture.strip(stack.layout).splitlines())}</div>'


def _changes(entry: registry.Paper, config: Model.Config) -> Iterator[str]:
    if entry.parent is not None:
        rows = [(f"`{path}`", *map(code, pair)) for path, pair in sublayer.config(entry.parent).diff(config).items()]
        yield "## What it changes"
        yield table(("key", f"[{entry.parent}]({entry.parent}.md)", entry.name), rows)


def _children(name: str) -> Iterator[str]:
    if children := registry.children(name):
        yield "Changed further by " + ", ".join(f"[{child}]({child}.md)" for child in children) + "."


def _cost(cost: Cost) -> str:
    work = cost.flops
    rows = [(where, f"{getattr(cost, where):,}") for where in ("tokens", "positions", "stack", "final_norm", "head")]
    rows.append(("**parameters in all**", f"**{cost.params:,}**"))
    rows.append(("decoder_params = stack + final_norm", f"{cost.decoder_params:,}"))
    rows.append((f"**FLOPs**, {work.length} new tokens and {work.memory} remembered", f"**{work.total:,}**"))
    if work.frozen_stack != work.stack:
        rows.append(("FLOPs, memory stored as keys and values", f"{work.total - work.stack + work.frozen_stack:,}"))
    return table(("where", "count"), rows, numbers=[1])


def _facts(entry: registry.Paper, cost: Cost) -> Iterator[str]:
    if entry.facts:
        rows = [(f"`{name}`", f"{fact:,}", f"{cost.dump()[name]:,}") for name, fact in entry.facts.items()]
        yield "Facts that the tests check, to the last digit:"
        yield table(("figure", "published", "counted here"), rows, numbers=[1, 2])


def family_table(link: str | None = None) -> str:
    """Every paper, parents before children, linked to a page, or to the file that defines it."""
    rows = []
    for name in _names():
        entry, config = registry.find(name), sublayer.config(name)
        cost, where = config.cost(), link.format(name=name) if link else _file(name)
        layout = " → ".join(f"`{stack.layout}`" for stack in config.stacks.values())
        figures = (short(figure).replace(" ", "\u00a0") for figure in (cost.params, cost.flops.total))
        rows.append((f"[{name}]({where})", entry.parent or "", layout, *figures, entry.summary))
    return table(("paper", "from", "layout", "parameters", "FLOPs", "what it changes"), rows, numbers=[3, 4])


def law_table() -> str:
    """Every law in its own words."""
    return table(("law", "what it says"), [(name, first_lines(law)) for name, law in LAWS.items()])


def readme(text: str) -> str:
    """The README with its tables generated, each between its markers."""
    for name, rows in (("family", family_table()), ("laws", law_table())):
        marked = re.compile(rf"(<!-- {name}: .*? -->\n).*?(\n<!-- end of {name} -->)", re.DOTALL)
        text, count = marked.subn(lambda found, rows=rows: f"{found[1]}\n{rows}\n{found[2]}", text)
        assert count == 1, f"README.md: expected one pair of markers for {name}, found {count}"
    return text


def _names() -> list[str]:
    """The package's own papers, not an installed plug-in's."""
    return [name for name in sublayer.names() if registry.find(name).change.__module__.startswith("sublayer.")]


def _file(name: str) -> str:
    return f"src/{registry.find(name).change.__module__.replace('.', '/')}.py"


def main() -> None:
    folder, page = ROOT / "docs" / "cards", ROOT / "README.md"
    folder.mkdir(exist_ok=True)
    made = cards()
    for old in folder.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    (ROOT / "docs" / "images" / "family.svg").write_text(picture.family(), encoding="utf-8")
    page.write_text(readme(page.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{len(made)} pages in docs/cards, the tables of README.md, docs/images/family.svg")


if __name__ == "__main__":
    main()
