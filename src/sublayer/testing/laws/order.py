"""Who may know of whom: causality, patterns, and whether the order of tokens has an effect."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from sublayer.nn.attention import Pattern
from sublayer.nn.attention.bands import count
from sublayer.nn.attention.pattern.base import bands_of
from sublayer.nn.part import Part
from sublayer.nn.scene import Scene
from sublayer.nn.stack import Stack
from sublayer.testing.case import Case, by_reference, fed
from sublayer.testing.verdict import PIECES, law, require, same

BOTH_WAYS = "it reads both ways"


@law("causality", long=PIECES)
def causality(case: Case) -> str | None:
    """No output knows what comes after it: gradients are exactly zero, values move by less than 1e-12."""
    if not case.one_way:
        return BOTH_WAYS
    model, ids = case.model(), case.ids()
    t = max(1, case.length // 2)
    x_BLD = model.embedding.read(ids).detach().requires_grad_()
    state = case.begin(model)
    with fed(model, x_BLD):
        h_BLD, _ = model(ids, state)
    weight = torch.randn(h_BLD[:, :t].shape, dtype=h_BLD.dtype, generator=torch.Generator().manual_seed(1))
    (slope,) = torch.autograd.grad((h_BLD[:, :t] * weight).sum(), x_BLD)
    leak = f"causality: outputs before token {t} have a gradient with respect to inputs after it"
    require(not slope[:, t:].any(), leak)
    require(bool(slope[:, :t].any()), "causality: outputs do not depend on their own inputs")
    other = torch.cat([ids[:, :t], (ids[:, t:] + 1) % case.config.vocab], dim=1)
    with torch.no_grad():
        same(case.read(model, other)[:, :t], case.read(model, ids)[:, :t], 1e-12, "causality: later tokens changed")
    return None


@law("pattern", long=PIECES)
def pattern(case: Case) -> str | None:
    """What a pattern's predicate forbids has no effect, by the fast paths and by the slow twin; its bands and ranges
    hold what it allows, and what a later query sees is stored."""
    patterned = [one for one in case.attentions() if _pattern(one[1])]
    if not patterned:
        return "no part has a pattern"
    for letter, part, stack in patterned:
        asked = _pattern(part)
        assert asked is not None
        _bands_agree(asked, case.length, f"pattern: {letter} ({asked.tag})")
        _single_queries_agree(asked, case.length, f"pattern: {letter} ({asked.tag})")
        if part.needs_source:
            continue
        for how, effect_LM in _effects(case, part, stack):
            # A token acts on itself through its query, whether it may see itself or not.
            allowed_HLM = [_allowed(kind, case.length) for kind in part.patterns]
            hidden_LM = (~torch.stack(allowed_HLM).any(0)).fill_diagonal_(False)
            require(
                not (effect_LM * hidden_LM).any(),
                f"pattern: {letter} ({asked.tag}), {how}: a key that it forbids has an effect",
            )
            require(bool(effect_LM.any()), f"pattern: {letter} ({asked.tag}), {how}: no key has an effect")
    return None


def _pattern(part: Part.Config) -> Pattern.Config | None:
    found = getattr(part, "pattern", None)
    return found if isinstance(found, Pattern.Config) else None


def _allowed(asked: Pattern.Config, length: int) -> Tensor:
    """The predicate, for every query i and key j of a text from its start."""
    i_L = torch.arange(length)
    seen_LM = asked.allows(i_L[:, None], i_L[None, :]).expand(length, length)
    return seen_LM & (i_L[None, :] <= i_L[:, None]) if asked.causal else seen_LM


def _bands_agree(asked: Pattern.Config, length: int, what: str) -> None:
    """Bands hold the pairs that the predicate allows, each once, with and without earlier keys."""
    for new, memory, heads in ((length, 0, 1), (length, 7, 2), (1, length, 1)):
        kinds, bands = asked.by_head(heads), bands_of(asked, heads, new, memory, memory)
        if bands is None:
            return
        where = f"({new} new, {memory} earlier)"
        counts_HLM = count(bands, heads, new, memory + new)
        allowed_HLM = torch.stack([_allowed(kind, memory + new)[memory:] for kind in kinds])
        require(bool((counts_HLM < 2).all()), f"{what}: its bands hold a pair twice {where}")
        require(not (allowed_HLM & (counts_HLM == 0)).any(), f"{what}: its bands miss a key that it allows {where}")
        require(not (~allowed_HLM & (counts_HLM > 0)).any(), f"{what}: its bands hold a key that it forbids {where}")


def _single_queries_agree(asked: Pattern.Config, length: int, what: str) -> None:
    """Ranges hold the keys that the predicate allows one query, each once; later queries see only what is stored."""
    if not asked.causal:
        return
    queries, j_M = sorted({0, 1, length // 2, length - 2, length - 1} & set(range(length))), torch.arange(length)
    for kind in dict.fromkeys(asked.by_head(2)):
        allowed_LM = _allowed(kind, length)
        for i in queries:
            if (ranges := kind.ranges(i)) is None:
                break
            listed = sorted(j for one in ranges for j in one)
            require(listed == allowed_LM[i].nonzero().flatten().tolist(), f"{what}: its ranges of query {i} are wrong")
        for next_one in queries:
            stored_M = asked.lasts(j_M) | (j_M >= (0 if asked.recent is None else next_one - asked.recent))
            seen_M = allowed_LM[next_one:].any(0) & (j_M < next_one)
            require(not (seen_M & ~stored_M).any(), f"{what}: from {next_one} on, a key is seen that is not stored")


def _effects(case: Case, part: Part.Config, stack: Stack.Config) -> Iterator[tuple[str, Tensor]]:
    """How strongly each key acts on each query in the part alone, as a gradient; by the fast path and by the slow."""
    built = _alone(case, part, stack)
    x_1LD = torch.randn(1, case.length, case.config.dim, dtype=torch.float64).requires_grad_()
    queries = sorted({0, min(1, case.length - 1), case.length // 2, case.length - 1})
    for how, slow in (("fast", False),) if case.long else (("fast", False), ("slow", True)):
        with by_reference() if slow else torch.enable_grad():
            scene = Scene(torch.arange(case.length)[None])
            y_1LD, _ = built(x_1LD, scene)
            effect_LM = torch.zeros(case.length, case.length)
            for i in queries:
                (slope,) = torch.autograd.grad(y_1LD[0, i].sum(), x_1LD, retain_graph=True)
                effect_LM[i] = slope[0].abs().amax(-1)
        yield how, effect_LM


def _alone(case: Case, part: Part.Config, stack: Stack.Config) -> Part:
    """One attention as it stands in the first slot, with weights of its own."""
    torch.manual_seed(case.seed)
    dim = case.config.dim
    shared = stack.position.build(dim, stack.head_dim(dim)).double()
    return part.build(stack.slot(dim, shared)).double().eval()


@law("position", long=PIECES)
def position(case: Case) -> str | None:
    """Where a position acts inside attention, the order of the tokens that the last one sees changes what it gets."""
    acting = [one for one in case.attentions() if one[2].position.acts_in_attention and not one[1].needs_source]
    if not acting:
        return "no position acts inside an attention"
    if case.length < 4:
        return "the text is too short to swap two tokens"
    tried = False
    for letter, part, stack in acting:
        built = _alone(case, part, stack)
        with torch.no_grad():
            for weight in built.parameters():
                weight.normal_(std=0.5)
        # Several rows: of scores that are cut at 0 (DA) those of one row may all be.
        x_BLD = torch.randn(8, case.length, case.config.dim, dtype=torch.float64, requires_grad=True)
        here_BD = _last(built, x_BLD)
        (slope_BLD,) = torch.autograd.grad(here_BD.sum(), x_BLD)
        seen = slope_BLD[:, :-1].abs().amax((0, 2)).nonzero().flatten()[-2:]
        if len(seen) < 2:
            continue
        order, tried = torch.arange(case.length), True
        order[seen] = seen.flip(0)
        there_BD = _last(built, x_BLD[:, order])
        moved = float((here_BD - there_BD).detach().abs().max())
        require(moved > 1e-9, f"position: {letter} ({part.tag}) takes no notice of position={stack.position.tag}")
    return None if tried else "the last token sees fewer than two earlier ones, which have no order"


def _last(part: Part, x_BLD: Tensor) -> Tensor:
    """What the last token of a text gets."""
    return part(x_BLD, Scene(torch.arange(x_BLD.shape[1])[None]))[0][:, -1]
