"""Generate from the code: the method cards, the alphabet, the tables of the README, the menu of the site, the picture.

python docs/cards.py        docs/cards/**.md (not in the repository), README.md, mkdocs.yml, docs/images/family.svg
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import alphabet
import approximation
import family
import patterns
import picture
import reproduced
from tables import code, first_lines, table

import sublayer
from sublayer.cli.words import short
from sublayer.nn import layout as layouts
from sublayer.nn.model import Cost, Model
from sublayer.papers import registry
from sublayer.testing import LAWS

ROOT = Path(__file__).parent.parent
FLOPS = "FLOPs are of one pass over 64 new tokens, with the memory full where there is one."


def cards() -> dict[str, str]:
    """File name → text, of every page."""
    intro = f"Each paper is a short diff against its parent. {FLOPS} See also [the alphabet](alphabet.md)."
    index = f"# The family\n\n{intro}\n\n{family_table('{name}/index.md')}\n"
    pages = {family.page(name): card(name) for name in family.names()}
    general = {"index.md": index, "alphabet.md": alphabet.page(), "patterns.md": patterns.page()}
    return {**general, **pages, **family.sources()}


def card(name: str) -> str:
    entry, config = registry.find(name), sublayer.config(name)
    sections = [
        f"# {name}",
        *_path(name),
        entry.story,
        f"{family.cited(entry.cite)}. Defined in [{family.file(name)}](../source/{family.module(name)}.md).",
        *_layouts(entry, config),
        *patterns.of_model(name, config),
        *_changes(entry, config),
        *_saved(entry, config),
        *_children(name),
        "## The paper in code",
        f"```python\n{inspect.getsource(entry.change).rstrip()}\n```",
        "## How to use",
        f"```bash\nsublayer show {name}\nsublayer show {name} --length 1 --json\n```",
        f'```python\nimport sublayer\n\nconfig = sublayer.config("{name}")\nmodel = config.build()\n```',
        "## Cost",
        _cost(config.cost()),
        *_facts(entry, config.cost()),
        *approximation.section(entry, config),
        *_results(name),
        "## Hyperparameters",
        f"```toml\n{config.to_toml().rstrip()}\n```",
    ]
    return "\n\n".join(sections) + "\n"


def _path(name: str) -> Iterator[str]:
    """From the root of the family to this paper."""
    if ancestors := family.ancestors(name):
        yield " › ".join([*map(family.link, ancestors), f"**{name}**"])


def _layouts(entry: registry.Paper, config: Model.Config) -> Iterator[str]:
    """The rows of blocks, the parent's first, and what their letters stand for."""
    parent = sublayer.config(entry.parent) if entry.parent else None
    before = [stack.layout for stack in parent.stacks.values()] if parent else []
    same = before == [stack.layout for stack in config.stacks.values()]
    yield "## Layout"
    if parent and entry.parent and not same:
        yield from _rows(family.link(entry.parent), parent)
    yield from _rows(f"**{entry.name}**" + (f", like {family.link(entry.parent or '')}" if same else ""), config)
    yield "\n".join(_legend(config))


def _rows(title: str, config: Model.Config) -> Iterator[str]:
    for prefix, stack in config.stacks.items():
        count = len(layouts.expand(stack.layout))
        yield f"{title}{f', {prefix}' if prefix else ''}: `{stack.layout}`, {count} sublayers"
        yield picture.strip(stack.layout)


def _legend(config: Model.Config) -> Iterator[str]:
    """A line for each letter: its part, and where the alphabet describes it."""
    for prefix, stack in config.stacks.items():
        for letter, part in stack.alphabet.items():
            if letter not in layouts.expand(stack.layout):
                continue
            words = picture.PARTS.get(letter, picture.OTHER)[0]
            of = f" of the {prefix}" if prefix else ""
            kind = f"[{part.tag}](../alphabet.md#part-{part.tag})"
            sizes = [f"{key} {getattr(part, key)}" for key in ("heads", "inner") if getattr(part, key, None)]
            yield f"- {picture.chip(letter)} {words}{of}: {', '.join([kind, *sizes])}"


def _changes(entry: registry.Paper, config: Model.Config) -> Iterator[str]:
    if entry.parent is not None:
        changes = sublayer.config(entry.parent).diff(config)
        rows = [(f"`{family.key(path)}`", *map(code, pair)) for path, pair in changes.items()]
        yield "## What it changes"
        yield table(("key", family.link(entry.parent), entry.name), rows)


def _saved(entry: registry.Paper, config: Model.Config) -> Iterator[str]:
    """Its cost beside its parent's."""
    if entry.parent is None:
        return
    parent = sublayer.config(entry.parent)
    theirs, ours = parent.cost(), config.cost()
    counts = [("parameters", theirs.params, ours.params)]
    counts.append(("parameters without vocabulary and positions", theirs.decoder_params, ours.decoder_params))
    counts.append(("FLOPs", theirs.flops.total, ours.flops.total))
    if (theirs.flops.frozen_stack, ours.flops.frozen_stack) != (theirs.flops.stack, ours.flops.stack):
        frozen = [one.total - one.stack + one.frozen_stack for one in (theirs.flops, ours.flops)]
        counts.append(("FLOPs, memory stored as keys and values", frozen[0], frozen[1]))
    counts.append(("sublayers", _sublayers(parent), _sublayers(config)))
    rows = [(name, short(before), short(after), _change(before, after)) for name, before, after in counts]
    less = ours.params < theirs.params or ours.flops.total < theirs.flops.total
    yield f"## What it {'saves' if less else 'costs'}"
    yield table(("figure", family.link(entry.parent), entry.name, "change"), rows, numbers=[1, 2, 3])
    yield f"{FLOPS} Remembered tokens: {theirs.flops.memory:,} there, {ours.flops.memory:,} here."


def _sublayers(config: Model.Config) -> int:
    return sum(len(layouts.expand(stack.layout)) for stack in config.stacks.values())


def _change(before: int, after: int) -> str:
    """−39 %, the same, or × 12."""
    if before == after:
        return "the same"
    if not before or after >= 3 * before:
        return f"× {after / before:.1f}" if before else "—"
    return f"{100 * (after / before - 1):+.1f} %".replace("-", "−")


def _children(name: str) -> Iterator[str]:
    if children := family.children(name):
        yield "Changed further by " + ", ".join(map(family.link, children)) + "."


def _results(name: str) -> Iterator[str]:
    """The paper's results beside ours; on the card of the paper's first model, which the others link to."""
    if made := list(reproduced.sections(name)):
        yield from made
        return
    yield "## Claims, run again"
    same = [one for one in family.names() if family.module(one) == family.module(name) and reproduced.about(one)]
    if same:
        yield (
            "The results of this paper that were run again are on the card of "
            + ", ".join(map(family.link, same))
            + "."
        )
    else:
        yield "No result of this paper has been run again here yet; `sublayer reproduce` lists those that can be."


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
    for name in family.names():
        entry, config = registry.find(name), sublayer.config(name)
        cost, where = config.cost(), link.format(name=name) if link else family.file(name)
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


def menu(text: str) -> str:
    """mkdocs.yml with its navigation generated."""
    marked = re.compile(r"(# nav: .*?\n).*?(\n# end of nav)", re.DOTALL)
    text, count = marked.subn(lambda found: f"{found[1]}{family.navigation()}{found[2]}", text)
    assert count == 1, f"mkdocs.yml: expected one pair of markers for nav, found {count}"
    return text


def main() -> None:
    folder, page, site = ROOT / "docs" / "cards", ROOT / "README.md", ROOT / "mkdocs.yml"
    made = cards()
    for old in folder.rglob("*.md"):
        if old.relative_to(folder).as_posix() not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (ROOT / "docs" / "images" / "family.svg").write_text(picture.family(), encoding="utf-8")
    page.write_text(readme(page.read_text(encoding="utf-8")), encoding="utf-8")
    site.write_text(menu(site.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{len(made)} pages in docs/cards, the tables of README.md, the menu of mkdocs.yml, docs/images/family.svg")


if __name__ == "__main__":
    main()
