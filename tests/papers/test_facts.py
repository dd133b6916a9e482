"""What the papers' own tables say, to the last digit they print."""

import pytest

import sublayer
from sublayer.papers import registry
from tests.papers.lts_tables import ROWS


@pytest.mark.parametrize("name", sublayer.names())
def test_facts_come_out_to_the_last_digit(name):
    cost = sublayer.config(name).cost()
    for entry, expected in registry.find(name).facts.items():
        assert getattr(cost, entry) == expected


@pytest.mark.parametrize("name", sublayer.names())
def test_every_paper_says_what_it_is_and_where_it_is_from(name):
    entry = registry.find(name)
    assert entry.summary.endswith((".", ":"))
    assert entry.cite
    if entry.parent:
        assert sublayer.config(name) != sublayer.config(entry.parent)


def _searched(row):
    """A row of the search paper's tables as overrides of its backbone."""
    keys = {"dim": row.dim, "layout": f"(sf)x{row.layers}", "s.heads": list(row.heads), "f.inner": list(row.inner)}
    return sublayer.config(row.backbone, {**keys, **({"vocab": 50264} if row.backbone == "gpt2" else {})})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.table}-{row.block}-{row.name}")
def test_rows_of_the_search_papers_tables(row):
    cost = _searched(row).cost()
    counted = cost.decoder_params + (cost.positions if row.table == 3 else 0)
    assert f"{counted / 1e6:.1f}" == row.printed_millions


@pytest.mark.parametrize(
    ("backbone", "dim", "inner", "expected"),
    [("transformer-xl", 512, [1216, 1280], 5_187_008), ("gpt2", 256, [3072, 3776, 3904], 6_309_632)],
)
def test_worked_examples(backbone, dim, inner, expected):
    changes = {"layout": f"(sf)x{len(inner)}", "s.heads": [2] * len(inner), "f.inner": inner}
    assert sublayer.config(backbone, changes, dim=dim).cost().decoder_params == expected


def test_opt_350m_with_its_positions():
    cost = sublayer.config("opt-350m").cost()
    assert cost.decoder_params + cost.positions == 304_408_576


@pytest.mark.parametrize(
    ("name", "total", "frozen"),
    [("transformer-xl-base", 26.6, 8.7), ("sandwich-base", 26.6, 8.7), ("par-base", 16.2, 8.6)],
)
def test_work_of_one_segment(name, total, frozen):
    """64 new tokens and 640 remembered: hidden states projected again, and kept as keys and values."""
    work = sublayer.config(name).cost(length=64, memory=640).flops
    assert round(work.total / 1e9, 1) == total
    assert round(work.frozen_stack / 1e9, 1) == frozen
