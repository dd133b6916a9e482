"""The Compressive Transformer's memory: recent tokens as they are, and older ones compressed, several to a slot."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field, model_validator
from torch import Tensor

from sublayer.nn.config import Count
from sublayer.nn.memory.base import Attended, Memory
from sublayer.nn.memory.compressive_state import CompressiveState, SlotState
from sublayer.nn.memory.compressor import Compressor, Convolution, Eviction
from sublayer.nn.memory.turnover import Rule, Turnover, turnover
from sublayer.nn.part import Slot, Work
from sublayer.nn.scene import Scene
from sublayer.nn.state import Constant, Growing

if TYPE_CHECKING:
    from sublayer.nn.attention.projection import Projection

ALLOWED = "allowed by the compressive memory"
"""Where `step` leaves in a scene what each query may see."""


class Compressive(Memory):
    """h̃ = [compressed memory ∘ memory ∘ segment], the first two without gradient (Rae et al. 2019, algorithm 1).

    After a segment, tokens beyond the last `length` become slots, `rate` tokens each, of which the last `compressed`
    stay. Keys and values are projected from all three, queries from the segment. As in Transformer-XL, what the
    sublayer receives is stored, before its norm, and read through the norm again.

    Statement on cuts: tokens are compressed in groups of g, a multiple of the rate, counted from the first token of the
    text (padding left out). A segment that begins after T tokens finds E = g·⌈(T − length)/g⌉ of them compressed, or
    none if T ≤ length. Query i sees each key j ≤ i with j ≥ E, and the last `compressed` of the slots that stand for
    the tokens before E. So lengths need not divide each other: the memory holds between length − g + 1 and `length`
    tokens, and no token is lost between the two. The paper compresses a segment's worth at a time, which is the same
    where g divides the segment's length and `length`.

    A slot stands at the position of the middle one of its tokens: token n·rate + ⌊rate/2⌋ for the n-th slot, or its own
    where it is a token. So its distance is that of what it stands for.
    """

    class Config(Memory.Config, tag="compressive"):
        hidden = True
        length: Count = 512
        """Tokens stored as they are, at most."""
        compressed: Annotated[int, Field(ge=0)] = 512
        """Slots of the compressed memory; 0: none, as in Transformer-XL."""
        rate: Count = 4
        """Tokens a slot stands for."""
        compressor: Compressor.Config = Convolution.Config()
        """How tokens become a slot."""

        @model_validator(mode="after")
        def _possible(self) -> Compressive.Config:
            if self.rule.group > self.length + 1:
                raise ValueError(
                    f"length={self.length}: compressor={self.compressor.tag} compresses {self.rule.group} tokens at a "
                    f"time, which have to be stored until then; use a length of at least {self.rule.group - 1}, or a "
                    "smaller rate or group"
                )
            return self

        @property
        def rule(self) -> Rule:
            group = self.rate * self.compressor.slots if self.compressed else 1
            return Rule(self.length, self.compressed, self.rate, group, self.by_usage)

        @property
        def by_usage(self) -> bool:
            """Whether slots are tokens, chosen by the attention they got."""
            return self.compressor.by_usage and self.compressed > 0

        @property
        def reach(self) -> int:
            return self.length + self.rate * self.compressed

        @property
        def splits(self) -> bool:
            return True

        def remembering(self, tokens: int) -> dict[str, Any]:
            """The share of tokens that are compressed stays as it is."""
            most = max(0, tokens - max(1, self.rate * self.compressor.slots - 1)) // self.rate
            slots = min(most, round(tokens * self.compressed / self.reach))
            return {"length": tokens - self.rate * slots, "compressed": slots}

        def allowed(self, scene: Scene, memory: int) -> Tensor | None:
            """What `step` left in the scene; it knows how many tokens each row has."""
            return scene.once(ALLOWED, lambda: None)

        def params(self, slot: Slot, groups: int, head_dim: int) -> int:
            return self.compressor.params(slot.dim, self.rate) if self.compressed else 0

        def flops(self, slot: Slot, groups: int, head_dim: int, work: Work) -> int:
            rule = self.rule
            if not rule.slots:
                return 0
            moved = (rule.gone(work.memory + work.length) - rule.gone(work.memory)) // rule.group
            project = 2 * slot.dim * 2 * groups * head_dim if work.frozen and work.memory else 0
            return moved * (self.compressor.flops(slot.dim, self.rate) + rule.each * project)

        def head_flops(self, head_dim: int, work: Work) -> int:
            tokens = self.rule.stored(work.memory) + work.length
            return 2 * work.length * tokens * head_dim if self.by_usage else 0

        def slots(self, tokens: int) -> int:
            return self.offered(tokens, None)

        def offered(self, tokens: int, limit: int | None) -> int:
            return self.rule.stored(tokens) + self.rule.made(tokens)

        def behind(self, tokens: int, limit: int | None) -> int:
            return self.rule.behind(tokens)

        def state_size(self, slot: Slot, groups: int, head_dim: int, work: Work, reach: int | None) -> int:
            after, wide = work.memory + work.length, 2 * groups * head_dim
            token, compressed = (slot.dim + wide, wide) if work.frozen else (slot.dim, slot.dim)
            counts = self.rule.stored(after), self.rule.made(after)
            return counts[0] * (token + self.by_usage) + counts[1] * (compressed + self.by_usage)

    config: Config

    def __init__(self, config: Config, slot: Slot, groups: int, head_dim: int) -> None:
        super().__init__(config, slot, groups, head_dim)
        self.rule = config.rule
        self.compressor = config.compressor.build(slot.dim, config.rate) if config.compressed else None

    def step(self, new: Projection, state: CompressiveState | None, scene: Scene, limit: int | None) -> Attended:
        move, state = self._turnover(scene), state or CompressiveState.before(new.x_BLD, self.config.by_usage)
        x, k, v = self._tokens(new, state, move)
        k_BGNK, v_BGNK = k.last(move.valid_BN.shape[1]), v.last(move.valid_BN.shape[1])
        usage = self._usage(new, state, k_BGNK, scene, move)
        made = self._compress(new, x, usage, state.frozen, scene if torch.is_grad_enabled() else None, move)
        after = state.after(made, move, x=x, k=k, v=v, usage=usage)
        table = None if state.table is None else state.table.value
        if scene.even and not move.slots and move.allowed_BLM is None:
            return Attended(k_BGNK, v_BGNK, after, scene, table)
        k_BGXK, v_BGXK, seen = self._read(new, state.slots, made, scene, move)
        k_BGMK, v_BGMK = torch.cat([k_BGXK, k_BGNK], dim=2), torch.cat([v_BGXK, v_BGNK], dim=2)
        return Attended(k_BGMK, v_BGMK, after, seen, table)

    def skip(
        self, new: Projection, state: CompressiveState | None, scene: Scene, limit: int | None
    ) -> CompressiveState:
        """Nothing is attended to, so no token gains in usage, and no compressor learns."""
        move, state = self._turnover(scene), state or CompressiveState.before(new.x_BLD, self.config.by_usage)
        if state.frozen:
            return self.step(new, state, scene, limit).state
        x = state.x.append(new.x_BLD.detach(), move.tokens)
        usage = None if state.usage is None else _with_zeros(state.usage, move, scene.length)
        made = self._compress(new, x, usage, False, None, move)
        return state.after(made, move, x=x, usage=usage)

    def freeze(
        self, new: Projection, state: CompressiveState | None, scene: Scene, limit: int | None
    ) -> CompressiveState | None:
        """Keys and values of tokens and slots, computed once, with the table of distances. Tokens are stored as they
        were, too: only what is compressed already is not needed again."""
        if state is None or state.frozen or state.slots.x is None:
            return state
        move = self._turnover(scene)
        k_BGPK, v_BGPK = new.of(state.x.last(move.tokens), move.at_tokens, 0)
        at = move.at_slots if state.slots.i is None else Scene(state.slots.i.last(move.slots))
        k_BGXK, v_BGXK = new.of(state.slots.x.last(move.slots), at, 0)
        slots = SlotState(None, Growing.of(k_BGXK, 2), Growing.of(v_BGXK, 2), state.slots.i)
        table = new.table(self.config.reach + self.rule.group + 1)
        frozen = {"k": Growing.of(k_BGPK, 2), "v": Growing.of(v_BGPK, 2), "slots": slots}
        return replace(state, **frozen, table=None if table is None else Constant(table))

    def _turnover(self, scene: Scene) -> Turnover:
        return scene.once(("turnover", self.rule), lambda: turnover(scene, self.rule))

    def _tokens(self, new: Projection, state: CompressiveState, move: Turnover) -> tuple[Growing, Growing, Growing]:
        """Of the stored tokens and the segment: what the sublayer received, without gradient; keys; values."""
        x = state.x.append(new.x_BLD.detach(), move.tokens)
        if state.k is not None and state.v is not None:
            k_BGLK, v_BGLK = new.own()
            return x, state.k.append(k_BGLK, move.tokens), state.v.append(v_BGLK, move.tokens)
        if not move.tokens:
            k_BGNK, v_BGNK = new.own()
        else:
            x_BND = torch.cat([state.x.last(move.tokens), new.x_BLD], dim=1)
            k_BGNK, v_BGNK = new.of(x_BND, move.at_tokens, 0)
        return x, Growing.of(k_BGNK, 2), Growing.of(v_BGNK, 2)

    @torch.no_grad()
    def _usage(
        self, new: Projection, state: CompressiveState, k_BGNK: Tensor, scene: Scene, move: Turnover
    ) -> Growing | None:
        """With the mass that the segment's queries give to each token, by content, among the tokens they see; the mean
        over heads."""
        if state.usage is None:
            return None
        L, N = scene.length, k_BGNK.shape[2]
        seen_BLN = torch.ones(L, N, dtype=torch.bool, device=k_BGNK.device).tril(N - L) & move.valid_BN[:, None]
        if move.allowed_BLM is not None:
            seen_BLN = seen_BLN & move.allowed_BLM[..., -N:]
        weights_BHLN = new.scores(k_BGNK).masked_fill(~seen_BLN[:, None], -torch.inf).softmax(-1)
        padding_BL1 = ~move.valid_BN[:, -L:, None]  # padding asks nothing, and may see nothing: NaN
        mass_BN = weights_BHLN.masked_fill(padding_BL1[:, None], 0).sum(2).mean(1)
        return Growing.of(_with_zeros(state.usage, move, L).value + mass_BN, 1)

    def _compress(
        self, new: Projection, x: Growing, usage: Growing | None, frozen: bool, scene: Scene | None, move: Turnover
    ) -> SlotState | None:
        """The slots made in this pass, cut from the graph; None if none are. scene: takes the compressor's loss."""
        if not move.groups or self.compressor is None:
            return None
        N, at, i = move.valid_BN.shape[1], move.at_made, None
        old_BKTD, usage_NT = move.groups_of(x.last(N), self.rule), None
        if usage is not None:
            usage_BKT = move.groups_of(usage.last(N), self.rule)
            usage_NT = usage_BKT.flatten(0, 1)
            i_BKT = move.groups_of(move.at_tokens.i_BL.expand(len(usage_BKT), -1), self.rule)
            i_BX = i_BKT.flatten(0, 1).gather(1, self.compressor.chosen(usage_NT)).view(len(i_BKT), -1)
            at, i = Scene(i_BX), Growing.of(i_BX, 1)
        new_BKSD = self.compressor(old_BKTD.flatten(0, 1), usage_NT).unflatten(0, old_BKTD.shape[:2])
        if scene is not None:
            loss = self.compressor.loss(Eviction(old_BKTD, new_BKSD, move.whole_BK, scene.valid_BL, new.read))
            if loss is not None:
                scene.add_loss("compression", loss)
        made_BXD = new_BKSD.detach().flatten(1, 2).to(x.buffer.dtype)
        if not frozen:
            return SlotState(Growing.of(made_BXD, 1), i=i)
        k_BGXK, v_BGXK = new.of(made_BXD, at, 0)
        return SlotState(None, Growing.of(k_BGXK, 2), Growing.of(v_BGXK, 2), i)

    def _read(
        self, new: Projection, slots: SlotState, made: SlotState | None, scene: Scene, move: Turnover
    ) -> tuple[Tensor, Tensor, Scene]:
        """Keys and values of the slots that this pass reads, and the scene with slots and stored tokens as its past."""
        at = move.at_slots
        if slots.i is not None:
            at = Scene(move.slots_read(slots.i, None if made is None else made.i))
        if slots.k is not None and slots.v is not None:
            k_BGXK = move.slots_read(slots.k, None if made is None else made.k)
            v_BGXK = move.slots_read(slots.v, None if made is None else made.v)
        else:
            assert slots.x is not None
            k_BGXK, v_BGXK = new.of(move.slots_read(slots.x, None if made is None else made.x), at, 0)
        if slots.i is not None:
            return k_BGXK, v_BGXK, _seen(scene, at, move)
        return k_BGXK, v_BGXK, scene.once(("after compressed", self.rule), lambda: _seen(scene, at, move))


def _with_zeros(usage: Growing, move: Turnover, length: int) -> Growing:
    """For the segment's tokens too, which nobody used before."""
    stored_BP = usage.last(move.tokens)
    return Growing.of(torch.cat([stored_BP, stored_BP.new_zeros(len(stored_BP), length)], dim=1), 1)


def _seen(scene: Scene, at_slots: Scene, move: Turnover) -> Scene:
    """The segment after slots and stored tokens."""
    i_BP = move.at_tokens.i_BL[:, : move.tokens]
    rows = max(len(at_slots.i_BL), len(i_BP))
    past_i_BP = torch.cat([at_slots.i_BL.expand(rows, -1), i_BP.expand(rows, -1)], dim=1)
    past_valid_BP = torch.cat([move.valid_BX, move.valid_BN[:, : move.tokens]], dim=1)
    seen = scene.after(past_i_BP, past_valid_BP, move.far)
    seen.once(ALLOWED, lambda: move.allowed_BLM)
    return seen
