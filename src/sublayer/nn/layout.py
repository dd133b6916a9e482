"""Layouts: the word that spells a stack, and the rules that write such words.

    (sf)x16                 sixteen times attention, feed-forward
    (s)x6 (sf)x10 (f)x6     Sandwich(6)
    ((sf)x2 c)x3            groups nest

Letters are single; `x<count>` stands only right after `)`; white space is ignored.

    par(5)                  PAR of the layout that is there
    par(5,12)               PAR of 12 sublayers
    par(5,(sf)x6)           PAR of that layout
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

Tree: TypeAlias = "list[str | tuple[Tree, int]]"
"""Letters, and groups with the number of times they are repeated."""


MOST = 4096
"""Most sublayers of a stack, so that a typing error in a repeat is found before it fills the memory."""
DEEPEST = 16
"""Deepest nesting of groups."""


class LayoutError(ValueError):
    """A layout that cannot be read."""


def parse(layout: str) -> Tree:
    """The layout's groups and letters, repeats not yet written out."""
    if layout.count("(") > layout.count(")"):
        raise LayoutError(f"layout {_short(layout)} has a '(' without its ')'; write for example (sf)x12 or par(5,12)")
    open_groups: list[Tree] = [[]]
    rest = layout
    while rest := rest.lstrip():
        if rest[0] == "(":
            if len(open_groups) > DEEPEST:
                raise LayoutError(f"layout {_short(layout)} nests more than {DEEPEST} groups; write it flatter")
            open_groups.append([])
            rest = rest[1:]
        elif rest[0] == ")":
            if len(open_groups) == 1:
                raise LayoutError(f"layout {_short(layout)} has a ')' without its '('; write for example (sf)x12")
            group = open_groups.pop()
            if not group:
                raise LayoutError(f"layout {_short(layout)} has an empty group; put letters between '(' and ')'")
            rest = rest[1:].lstrip()
            times = re.match(r"x(\d+)", rest)
            open_groups[-1].append((group, int(times[1]) if times else 1))
            if times and int(times[1]) < 1:
                raise LayoutError(f"layout {_short(layout)} repeats a group {times[1]} times; a repeat is at least 1")
            rest = rest[times.end() :] if times else rest
        elif rest[0].isascii() and rest[0].isalpha() and rest[0] != "x":
            open_groups[-1].append(rest[0])
            rest = rest[1:]
        else:
            raise LayoutError(
                f"layout {_short(layout)} has {rest[0]!r} where a letter or a group should stand; "
                "a repeat is written right after ')', as in (sf)x12"
            )
    if not open_groups[0]:
        raise LayoutError("the layout is empty; write for example (sf)x12")
    if (count := _count(open_groups[0])) > MOST:
        raise LayoutError(f"layout {_short(layout)} has {count} sublayers; {MOST} is the most a stack may have")
    return open_groups[0]


def _short(layout: str) -> str:
    """Shortened for an error message."""
    return repr(layout if len(layout) <= 60 else f"{layout[:57]}…")


def _count(tree: Tree) -> int:
    return sum(1 if isinstance(item, str) else _count(item[0]) * item[1] for item in tree)


def write(tree: Tree) -> str:
    """The layout string of a tree."""
    pieces = []
    for item in tree:
        if isinstance(item, str):
            pieces.append(item)
        else:
            group, times = item
            pieces.append(f" ({write(group)})" + (f"x{times}" if times > 1 else "") + " ")
    return " ".join("".join(pieces).split()).replace("( ", "(").replace(" )", ")")


def expand(layout: str | Tree) -> str:
    """The whole word, one letter a sublayer: `(sf)x2` → `sfsf`."""
    tree = parse(layout) if isinstance(layout, str) else layout
    return "".join(item if isinstance(item, str) else expand(item[0]) * item[1] for item in tree)


def spell(word: str) -> str:
    """A short layout for a word: from left to right, the shortest group whose repeats cover most letters."""
    pieces, at = [], 0
    while at < len(word):
        best, best_times = word[at], 1
        for size in range(1, (len(word) - at) // 2 + 1):
            group, times = word[at : at + size], 1
            while word.startswith(group, at + size * times):
                times += 1
            if times > 1 and size * times > len(best) * best_times:
                best, best_times = group, times
        if best_times > 1:
            pieces.append(f" ({best})x{best_times} ")
        else:
            pieces.append(best)
        at += len(best) * best_times
    return " ".join("".join(pieces).split())


def repeats(layout: str) -> list[int]:
    """How many sublayers each top-level repeat holds: `(sfff)x6 (f)x8` → six fours and eight ones."""
    lengths: list[int] = []
    for item in parse(layout):
        lengths += [1] if isinstance(item, str) else [len(expand(item[0]))] * item[1]
    return lengths


def sandwich(layout: str, k: float) -> str:
    """k attentions first, k feed-forwards last, interleaved between (Press et al. 2020): the parts stay the same."""
    pairs, odd = divmod(n := len(expand(layout)), 2)
    if k != int(k):
        raise LayoutError(f"sandwich({k:g}) moves a whole number of attentions; use sandwich({int(k)})")
    if odd or k > pairs:
        raise LayoutError(
            f"sandwich({k:g}) needs an even layout of at least {2 * k:g} sublayers, got {n} in {_short(layout)}"
        )
    k = int(k)
    groups = ("s", k), ("sf", pairs - k), ("f", k)
    return " ".join(f"({group})x{times}" for group, times in groups if times)


def par(layout: str, p: float) -> str:
    """One attention in p sublayers, evenly within the first two thirds (Mandava et al. 2020, section 2.3)."""
    n = len(expand(layout))
    m = round(n / p) if p > 0 else 0
    if not 1 <= m <= n:
        raise LayoutError(f"par({p:g}) of {n} sublayers leaves {m} attentions; choose p between 1 and {n}")
    gap = max(1, round((2 * n / 3 + 1) / m))
    attentions = {gap * a for a in range(m)}
    return spell("".join("s" if at in attentions else "f" for at in range(n)))


RULES: dict[str, Callable[[str, float], str]] = {"sandwich": sandwich, "par": par}
"""Rules that rewrite any base's layout: `layout=par(5)`."""
CALL = re.compile(rf"\s*({'|'.join(RULES)})\s*\((.*)\)\s*", re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def apply_rule(rule: str, layout: str) -> str:
    """`par(5)` on the layout that is there, `par(5,12)` on 12 sublayers, `par(5,(sf)x6)` on that layout.

    Anything that is not a rule comes back as it is.
    """
    call = _call(rule)
    if call is None:
        return rule
    name, number, base = call
    return RULES[name](layout if base is None else _base(rule, base, layout), number)


def put_on(rule: str, base: str) -> str:
    """The rule with the layout it stands on: `par(5)` and `(sf)x6` → `par(5,(sf)x6)`. What names its base keeps it."""
    call = _call(rule)
    return rule if call is None or call[2] is not None else f"{call[0]}({call[1]:g},{base.strip()})"


def needs_base(value: object) -> bool:
    """Whether a value for a layout is a rule that does not name the layout it stands on."""
    call = _call(value) if isinstance(value, str) else None
    return call is not None and call[2] is None


def _call(rule: str) -> tuple[str, float, str | None] | None:
    """The name of a rule, its number and its base if it names one; None for a layout, such as `par(sf)x2`."""
    call = CALL.fullmatch(rule)
    if call is None or call[2].lstrip()[:1].isalpha() or call[2].lstrip()[:1] == "(":
        return None
    name, (number, comma, base) = call[1], call[2].partition(",")
    if not NUMBER.fullmatch(number.strip()) or (comma and not base.strip()):
        raise LayoutError(
            f"layout {_short(rule)} is not a rule; write {name}(NUMBER), or {name}(NUMBER,BASE) with a number of "
            f"sublayers or a layout as its base: {name}(3,12)"
        )
    return name, float(number), base.strip() if comma else None


def _base(rule: str, base: str, layout: str) -> str:
    """The layout that a rule names as its base: a number of sublayers, a layout, or another rule."""
    if not re.fullmatch(r"[+-]?[\d.]+", base):
        return apply_rule(base, layout)
    if not base.isdecimal() or not 1 <= len(base) <= 9 or not 1 <= int(base) <= MOST:
        raise LayoutError(f"layout {_short(rule)} stands on {base} sublayers; give a whole number from 1 to {MOST}")
    return spell(("sf" * int(base))[: int(base)])
