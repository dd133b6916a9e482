"""From folders to sections: each folder by its kind, runs that stand alone together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sublayer.reports.folders import Found, find
from sublayer.reports.history import read_all
from sublayer.reports.section import Section
from sublayer.reports.sections import compare, lengths, proxies, reproduction, runs, search, supernet
from sublayer.reports.sections.source import Source, trained

KINDS = {
    "reproduction": reproduction.section,
    "search": search.section,
    "lengths": lengths.section,
    "compare": compare.section,
    "supernet": supernet.section,
    "proxies": proxies.section,
}


def build(folders: Sequence[Path], tokens: int) -> tuple[list[Section], list[str]]:
    """The sections, and what could not be read; ValueError if nothing could."""
    sections: list[Section] = []
    problems: list[str] = []
    found = {folder: find(folder) for folder in folders}
    elsewhere = trained([one for inside in found.values() for one in inside])
    for folder, inside in found.items():
        for one in (one for one in inside if one.kind != "run"):
            try:
                sections.append(_of(one, problems, tokens, elsewhere))
            except ValueError as error:
                problems.append(str(error))
        alone, unread = read_all([one.path for one in inside if one.kind == "run"], folder)
        problems += unread
        if alone:
            sections.append(runs.section(str(folder), alone, tokens))
    if not sections:
        raise ValueError(problems[0] if problems else "no folder was given; name at least one")
    return sections, problems


def _of(found: Found, problems: list[str], tokens: int, elsewhere: Mapping[str, str]) -> Section:
    inside, unread = read_all(found.runs, found.path)
    made = KINDS[found.kind](Source(found, inside, tokens, elsewhere))
    problems += unread
    return made
