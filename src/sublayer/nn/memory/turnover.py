"""Turnover: which tokens one pass moves from a memory to its compressed memory, and where all slots stand.

It is the same in all layers with such a memory, so it is made once a pass. Tokens are counted per row, padding left
out: token t of a row is its t-th real one. Stored tokens and slots are aligned to the right, so that rows with fewer
have padding first. Where nothing is padding, all is known from two whole numbers, and nothing is gathered.

Letters beside those of the legend: N stored tokens and the segment's, P tokens that stay, X slots, C slots that stay,
K groups of tokens, T tokens of a group or of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from sublayer.nn.scene import Scene
from sublayer.nn.state import Growing


@dataclass(frozen=True)
class Rule:
    """When tokens are compressed: a group at a time, as soon as the memory would hold more than `length`."""

    length: int
    """Tokens that are stored as they are, at most."""
    slots: int
    """Compressed slots, at most."""
    rate: int
    """Tokens a slot."""
    group: int
    """Tokens that are compressed together."""
    chosen: bool = False
    """Whether slots are tokens of their group, at positions of their own."""

    @property
    def each(self) -> int:
        """Slots made of a group."""
        return self.group // self.rate

    def gone(self, tokens: int) -> int:
        """How many of a text's first `tokens` tokens are no longer stored as they are, if a segment ends there."""
        return -(-max(0, tokens - self.length) // self.group) * self.group

    def gone_of(self, tokens: Int[Tensor, "B n"]) -> Int[Tensor, "B n"]:
        """`gone` of each."""
        return -(-(tokens - self.length).clamp(min=0) // self.group) * self.group

    def stored(self, tokens: int) -> int:
        return tokens - self.gone(tokens)

    def made(self, tokens: int) -> int:
        """How many slots are stored after so many tokens."""
        return min(self.slots, self.gone(tokens) // self.rate)

    def behind(self, tokens: int) -> int:
        """How many tokens back from the next one the oldest slot stands; at most, where slots are chosen."""
        gone, slots = self.gone(tokens), self.made(tokens)
        if not slots:
            return tokens - gone
        oldest = gone // self.rate - slots
        return tokens - (oldest // self.each * self.group if self.chosen else oldest * self.rate + self.rate // 2)


@dataclass(frozen=True)
class Turnover:
    tokens: int
    """Stored tokens before the pass, in the row that has most."""
    slots: int
    """Slots before the pass, in the row that has most."""
    groups: int
    """Groups that are compressed by the end of the pass, in the row that has most."""
    inner: int
    """How many slots of these groups a later segment of the same pass reads."""
    stay: int
    """Stored tokens after the pass."""
    kept: int
    """Slots after the pass."""
    at_tokens: Scene
    """Positions (#B, N) of the stored tokens and the segment's, as a scene without a past."""
    at_slots: Scene
    """Positions (#B, X) of the slots that are read, those before the pass and the inner ones; unless chosen."""
    at_made: Scene
    """Positions of the slots that are made; unless they are chosen."""
    valid_BN: Bool[Tensor, "#B N"]
    """Which of the tokens are there."""
    valid_BX: Bool[Tensor, "#B X"]
    """Which of the slots that are read are there."""
    allowed_BLM: Bool[Tensor, "#B L M"] | None
    """Which slots and tokens each query may see, where the pass stands for several segments."""
    far: int | None
    """How far behind the segment's first token the oldest slot stands; None where it has to be looked up."""
    take_BT: Int[Tensor, "B T"] | None = None
    """Columns of the tokens of the groups; None: the first ones."""
    whole_BK: Bool[Tensor, "B K"] | None = None
    """Which rows have which of the groups; None: all have all."""
    stay_BP: Int[Tensor, "B P"] | None = None
    """Columns of the tokens that stay; None: the last ones."""
    kept_BC: Int[Tensor, "B C"] | None = None
    """Of the slots stored and made, those that stay; None: the last ones."""

    def groups_of(self, x: Tensor, rule: Rule) -> Tensor:
        """Of something that each token has (B, N, …), that of the tokens to be compressed, by group (B, K, T, …)."""
        taken = x[:, : self.groups * rule.group] if self.take_BT is None else pick(x, self.take_BT, 1)
        return taken.unflatten(1, (self.groups, rule.group))

    def tokens_after(self, all_N: Growing) -> Growing:
        """Of something that each token has, that of the tokens still stored after the pass."""
        if self.stay_BP is None:
            return all_N.trim(self.stay)
        columns = all_N.last(self.valid_BN.shape[1])
        return Growing.of(pick(columns, self.stay_BP, all_N.axis), all_N.axis)

    def slots_after(self, old: Growing, made: Growing) -> Growing:
        """Of something that each slot has, that of the slots after the pass, of those before and those made."""
        if self.kept_BC is None:
            return old.append(made.value, self.slots).trim(self.kept)
        both = torch.cat([old.last(self.slots), made.value], dim=old.axis)
        return Growing.of(pick(both, self.kept_BC, old.axis), old.axis)

    def slots_read(self, old: Growing, made: Growing | None) -> Tensor:
        """Of something that each slot has, that of the slots that this pass reads."""
        stored = old.last(self.slots)
        inner = None if made is None or not self.inner else made.value.narrow(old.axis, 0, self.inner)
        return stored if inner is None else torch.cat([stored, inner], dim=old.axis)


def pick(x: Tensor, index_BX: Tensor, axis: int) -> Tensor:
    """Other entries along an axis for each row."""
    shape = [1] * x.dim()
    shape[0], shape[axis] = index_BX.shape
    return x.take_along_dim(index_BX.view(shape), dim=axis)


def turnover(scene: Scene, rule: Rule) -> Turnover:
    """For the segment of this scene."""
    even = scene.even
    # Whole numbers of an even pass stay on the CPU: nothing has to wait for them on another device.
    device = torch.device("cpu") if even else scene.i_BL.device
    now_BL = torch.ones(scene.i_BL.shape, dtype=torch.bool, device=device) if even else _now(scene)
    before_B1 = torch.tensor([[scene.start]], device=device) if even else _before(scene, now_BL)
    nth_BL = before_B1 + now_BL.cumsum(1) - 1
    after_B1 = before_B1 + now_BL.sum(1, keepdim=True)
    gone_B1, later_B1 = rule.gone_of(before_B1), rule.gone_of(after_B1)
    gone_BL = rule.gone_of(_first_of_segment(scene, before_B1, now_BL))  # as each query's segment finds it
    last_B1 = gone_BL.amax(1, keepdim=True) if scene.length else gone_B1

    tokens, slots = _most(before_B1 - gone_B1), min(rule.slots, _most(gone_B1 // rule.rate))
    groups = _most((later_B1 - gone_B1) // rule.group) if rule.slots else 0
    inner = _most((last_B1 - gone_B1) // rule.rate) if rule.slots else 0
    stay, kept = _most(after_B1 - later_B1), min(rule.slots, _most(later_B1 // rule.rate))

    nth_BN = torch.cat([before_B1 - tokens + _range(tokens, device), nth_BL], dim=1)
    valid_BN = torch.cat([nth_BN[:, :tokens] >= gone_B1, now_BL], dim=1)
    slot_BX = gone_B1 // rule.rate - slots + _range(slots + groups * rule.each, device)
    read_BX = slot_BX[:, : slots + inner]
    valid_BX = (read_BX >= 0) & (read_BX < last_B1 // rule.rate)
    allowed_BLM = None
    if scene.segment_L is not None:
        newest_BL1 = (gone_BL // rule.rate)[..., None]
        slots_BLX = (read_BX[:, None] < newest_BL1) & (read_BX[:, None] >= newest_BL1 - rule.slots)
        tokens_BLN = nth_BN[:, None] >= gone_BL[..., None]
        allowed_BLM = torch.cat([slots_BLX, tokens_BLN], dim=2).to(scene.i_BL.device)

    i_BN, i_BX, far, moves = nth_BN, slot_BX * rule.rate + rule.rate // 2, rule.behind(scene.start), ()
    if not even:
        position = _Lookup(scene, now_BL)
        i_BN = torch.cat([position(nth_BN[:, :tokens]), scene.i_BL.expand_as(nth_BL)], dim=1)
        i_BX, far = position(i_BX), None
        made_B1 = (later_B1 - gone_B1) // rule.group
        moves = _moves(rule, valid_BN, bool(now_BL.all()), valid_BX[:, :slots], made_B1, groups, stay, kept)
    i_BN, i_BX, valid_BN, valid_BX = (x.to(scene.i_BL.device) for x in (i_BN, i_BX, valid_BN, valid_BX))
    counts = (tokens, slots, groups, inner, stay, kept)
    places = Scene(i_BN), Scene(i_BX[:, : slots + inner]), Scene(i_BX[:, slots:])
    return Turnover(*counts, *places, valid_BN, valid_BX, allowed_BLM, far, *moves)


def _moves(
    rule: Rule,
    valid_BN: Tensor,
    full: bool,
    stored_BX: Tensor,
    made_B1: Tensor,
    groups: int,
    stay: int,
    kept: int,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """What goes where, row by row. `full`: none of the new tokens is padding."""
    device, N = valid_BN.device, valid_BN.shape[1]
    # Real tokens to the right, in order; they are there already where only stored ones are padding.
    order_BN = None if full else valid_BN.long().argsort(dim=1, stable=True)
    first_B1 = N - valid_BN.sum(1, keepdim=True)
    take_BT = (first_B1 + _range(groups * rule.group, device)).clamp(max=max(0, N - 1))
    take_BT = take_BT if order_BN is None else order_BN.gather(1, take_BT)
    whole_BK = _range(groups, device) < made_B1
    real_BX = torch.cat([stored_BX, whole_BK.repeat_interleave(rule.each, dim=1)], dim=1)
    kept_BC = real_BX.long().argsort(dim=1, stable=True)[:, real_BX.shape[1] - kept :]
    return take_BT, whole_BK, None if order_BN is None else order_BN[:, N - stay :], kept_BC


def _now(scene: Scene) -> Bool[Tensor, "B L"]:
    real_BL = torch.ones_like(scene.i_BL, dtype=torch.bool) if scene.valid_BL is None else scene.valid_BL
    rows = len(real_BL) if scene.past_valid_BP is None else max(len(real_BL), len(scene.past_valid_BP))
    return real_BL.expand(rows, -1)


def _before(scene: Scene, now_BL: Tensor) -> Int[Tensor, "B 1"]:
    """Real tokens of each row before the segment."""
    if scene.past_valid_BP is None:
        return torch.zeros(len(now_BL), 1, dtype=torch.long, device=now_BL.device)
    return scene.past_valid_BP.sum(1, keepdim=True).expand(len(now_BL), -1)


def _first_of_segment(scene: Scene, before_B1: Tensor, now_BL: Tensor) -> Int[Tensor, "B L"]:
    """How many real tokens stand before the segment of each query."""
    if scene.segment_L is None:
        return before_B1.expand(-1, scene.length)
    so_far_BL = before_B1 + now_BL.cumsum(1) - now_BL.long()
    return so_far_BL[:, scene.segment_L.to(now_BL.device) - scene.start]


class _Lookup:
    """The position of a row's n-th real token, of all tokens so far."""

    def __init__(self, scene: Scene, now_BL: Tensor) -> None:
        i_BT, valid_BT, rows = scene.i_BL.expand_as(now_BL), now_BL, len(now_BL)
        if scene.past_i_BP is not None and scene.past_valid_BP is not None:
            i_BT = torch.cat([scene.past_i_BP.expand(rows, -1), i_BT], dim=1)
            valid_BT = torch.cat([scene.past_valid_BP.expand(rows, -1), valid_BT], dim=1)
        order_BT = (~valid_BT).long().argsort(dim=1, stable=True)  # real tokens to the left
        self.i_BT = i_BT.gather(1, order_BT)

    def __call__(self, nth_BX: Tensor) -> Tensor:
        last = self.i_BT.shape[1] - 1
        return self.i_BT.gather(1, nth_BX.clamp(0, last)) if last >= 0 else torch.zeros_like(nth_BX)


def _most(numbers_B1: Tensor) -> int:
    return int(numbers_B1.max())


def _range(count: int, device: torch.device) -> Tensor:
    return torch.arange(count, device=device)
