"""What the papers' own tables say, to the last digit they print."""

import pytest
import torch

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


@pytest.mark.parametrize(
    ("name", "vocab", "printed_millions"),
    [("sparse-transformer", 256, 95), ("longformer", 204, 41), ("longformer-large", 204, 102)],
)
def test_counts_that_sparse_papers_print(name, vocab, printed_millions):
    """204 bytes occur in enwik8."""
    assert round(sublayer.config(name, vocab=vocab).cost().params / 1e6) == printed_millions


def test_compressive_without_its_compressors_is_as_large_as_transformer_xl():
    assert round(sublayer.config("compressive", {"s.memory.compressor": "mean"}).cost().params / 1e6) == 277


def seen(name, i, layer=0):
    """How many keys the query at position i sees, in each head of a layer."""
    config = sublayer.config(name)
    part = config.stack.parts[2 * layer]
    heads = part.pattern.by_head(part.heads)
    j = torch.arange((config.end or 4096) if part.both_ways else i + 1)
    return [int(head.sees(torch.tensor([i]), j).sum()) for head in heads]


@pytest.mark.parametrize(
    ("name", "i", "expected"),
    [
        ("image-transformer", 1023, 512),  # the query block of 256 and 256 pixels before it
        ("image-transformer", 768, 257),
        ("image-transformer-2d", 31 * 96 + 47, 16 * (32 + 16 + 32) + 15 * 80 + 48),
        ("sparse-transformer", 12_287, 128 + 95 * 32),
        ("sparse-transformer-cifar", 3071, 96 + 31),
        ("bigbird-causal", 64, 65),
    ],
)
def test_queries_see_as_many_keys_as_the_paper_says(name, i, expected):
    assert set(seen(name, i)) == {expected}


def test_blockwise_heads_see_their_own_block_or_the_other():
    config = sublayer.config("blockwise-bert")
    heads = config.stack.alphabet["s"].pattern.by_head(12)
    assert [bool(head.allows(torch.tensor(0), torch.tensor(0))) for head in heads] == [True] * 10 + [False] * 2
    assert seen("blockwise-bert", 300) == [256] * 12
    work = [sublayer.config(name).cost(length=512).flops.stack for name in ("bert-base", "blockwise-bert")]
    # Scores and their sums: 2 products of 512 × 512 × 64 in 12 heads and 12 layers, of which half is left out.
    assert work[0] - work[1] == 2 * 2 * 512 * 256 * 768 * 12


@pytest.mark.parametrize(
    ("name", "dilations"),
    [
        ("longformer", [1] * 6 + [2, 2, 3, 3, 4, 4]),
        ("longformer-large", [1] * 15 + [2] * 5 + [3] * 5 + [4] * 5),
    ],
)
def test_longformer_grows_with_depth(name, dilations):
    parts = sublayer.config(name).stack.parts[::2]
    heads = [part.pattern.by_head(8) for part in parts]
    assert [heads[0][0].reach + 1, heads[-1][0].reach + 1] == [32, 512]
    sizes = [own[0].reach + 1 for own in heads]
    assert sizes == sorted(sizes)
    assert [own[7].reach // own[0].reach for own in heads] == dilations
    assert [own[6] == own[7] for own in heads] == [True] * len(parts)
    assert all(own[:6] == (own[0],) * 6 for own in heads)


def test_bigbird_sees_eight_blocks_at_most():
    """Three of its window, two global, three at random, of which some coincide."""
    counts = seen("bigbird", 2048)
    assert all(count % 64 == 0 and 5 * 64 <= count <= 8 * 64 for count in counts)
    assert max(counts) == 8 * 64
    assert set(seen("bigbird", 100)) == {4096}
    assert seen("bigbird-causal", 2048, layer=3) != seen("bigbird-causal", 2048)


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
