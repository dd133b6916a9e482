"""Model: ids in, hidden vectors out, and the state that goes on. Heads turn hidden vectors into scores or a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sublayer.nn.config import Config, Count
from sublayer.nn.embedding import Embedding, Head
from sublayer.nn.limits import least
from sublayer.nn.model.cost import Cost
from sublayer.nn.part import Work
from sublayer.nn.scene import Scene, check_ids, check_mask
from sublayer.nn.stack import Stack
from sublayer.nn.state import Growing, State


class Model(nn.Module):
    """Abstract: `h_BLD, state = model(ids_BL, state=None, valid_BL=None)`.

    Arguments are checked by `open_scene`, whose errors name the remedy; shape annotations check the rest in tests.
    """

    config: Any
    """Its own class's Config."""
    embedding: Embedding
    head: Head

    class Config(Config, family="model"):
        remembers: ClassVar[bool] = True
        """Whether it goes from segment to segment with a state."""
        writes: ClassVar[bool] = False
        """Whether it can write text, token by token from left to right."""
        needs_source: ClassVar[bool] = False
        """Whether it must read a source first: `state = model.start(source)`."""
        learns: ClassVar[dict[str, str]] = {}
        """Kind of data → the objective it learns from it by default."""
        extra_ids: ClassVar[int] = 0
        """Ids it needs beside those of the text: an encoder's mask."""

        vocab: Count
        """Token ids it knows."""
        dim: Count
        """Width of the stream."""

        def build(self) -> Model:
            return self.owner(self)

        def assign(self, data: dict[str, Any], path: list[str], value: Any) -> None:
            """A stack given by its kind alone keeps its layout and its alphabet."""
            given = getattr(self, path[0], None)
            if isinstance(value, str) and len(path) == 1 and any(given is stack for stack in self.stacks.values()):
                path = [*path, "kind"]
            super().assign(data, path, value)

        @property
        def stacks(self) -> dict[str, Stack.Config]:
            """Its stacks by the name that prefixes their keys; one without a prefix is ''."""
            raise NotImplementedError

        @property
        def writer(self) -> Stack.Config:
            """The stack that writes: the last one."""
            return list(self.stacks.values())[-1]

        @property
        def source_ids(self) -> int:
            """Number of ids that a source may contain."""
            return self.vocab

        @property
        def carries(self) -> bool:
            """Whether it has a memory of what earlier segments held, which training and scoring should fill."""
            return any(stack.carries for stack in self.stacks.values())

        @property
        def splits(self) -> bool:
            """Whether its mathematics depends on where segments are cut."""
            return any(stack.splits for stack in self.stacks.values())

        @property
        def bounded(self) -> bool:
            """Whether its state stops growing, however long the text."""
            return all(stack.bounded for stack in self.stacks.values())

        @property
        def end(self) -> int | None:
            """How many positions it has; None: no end."""
            return least(*(stack.position.end for stack in self.stacks.values()))

        def check_length(self, length: int) -> None:
            """Raise ValueError where texts of so many tokens are too short for a part to be what it says. Of a model
            with a source, the text is what it writes."""
            self.writer.check_length(length)

        def state_size(self, length: int, memory: int = 0, source: int = 0, *, frozen: bool = False) -> int:
            """Numbers in the state of one row after a source, `memory` tokens and `length` more."""
            return sum(
                stack.state_size(self.dim, Work(length, memory, source, frozen)) for stack in self.stacks.values()
            )

        def cost(self, length: int = 64, memory: int | None = None) -> Cost:
            """For `length` new tokens after `memory` earlier ones (None: as many as its memories store)."""
            raise NotImplementedError

    @property
    def writer(self) -> Stack:
        """The stack that writes, whose states the model's state holds."""
        raise NotImplementedError

    def start(self, source_BS: Tensor | None = None, valid_BS: Tensor | None = None) -> State | None:
        """Where reading begins: None for a model without a source, else the state after the source."""
        if source_BS is not None:
            raise ValueError(f"source: a {self.config.tag} reads no source; put its ids into the text")
        return None

    def frozen(self, state: State) -> State:
        """The state with remembered hidden states turned into keys and values, for inference; consumes the state."""
        return freeze(self.writer, state)


def open_scene(
    ids_BL: Tensor,
    vocab: int,
    state: State | None,
    valid_BL: Tensor | None = None,
    position_BL: Tensor | None = None,
    segments: Sequence[int] | None = None,
    losses: dict[str, Tensor] | None = None,
    outputs: dict[str, Tensor] | None = None,
) -> Scene:
    """The scene of a pass over these ids; consumes the state.

    losses: receives what parts add to the loss, by name. outputs: receives further outputs of the stack, by name.
    """
    check_ids("ids", ids_BL, vocab)
    B, L = ids_BL.shape
    if valid_BL is not None:
        check_mask("valid", valid_BL, (B, L))
    if state is not None:
        state.take()
    start = state.start if state else 0
    now = torch.arange(start, start + L, device=ids_BL.device)[None]
    cuts_L = None if segments is None else _segment_starts(segments, start, L, ids_BL.device)
    sinks = {"losses": {} if losses is None else losses, "outputs": {} if outputs is None else outputs}
    known: dict[str, Any] = {**sinks, **({} if state is None else state.source)}
    ragged = valid_BL is not None or position_BL is not None or (state is not None and state.past_i is not None)
    if not ragged:
        return Scene(now, start, segment_L=cuts_L, **known)
    valid_BL = torch.ones_like(ids_BL, dtype=torch.bool) if valid_BL is None else valid_BL
    past_i_BP, past_valid_BP, next_B = _history(state, B, ids_BL.device)
    if position_BL is None:
        position_BL = (next_B[:, None] + valid_BL.cumsum(1) - 1).clamp(min=0)
    elif position_BL.shape not in ((B, L), (1, L)):
        raise ValueError(f"positions: expected shape {(B, L)}, got {tuple(position_BL.shape)}; give one per token")
    else:
        position_BL = position_BL.expand(B, L).masked_fill(~valid_BL, 0)  # positions of padding have no meaning
    return Scene(position_BL, start, valid_BL, past_i_BP, past_valid_BP, cuts_L, **known)


def close_scene(scene: Scene, parts: tuple[object, ...], state: State | None) -> State:
    """The state after the pass."""
    source: dict[str, Any] = {"source_BSD": scene.source_BSD, "source_valid_BS": scene.source_valid_BS}
    start = scene.start + scene.length
    if scene.even:
        return State(parts, start, **source)
    valid_BP = scene.valid(scene.start)
    assert scene.valid_BL is not None
    assert valid_BP is not None
    last_BL = torch.where(scene.valid_BL, scene.i_BL, -1)
    before_B = _history(state, len(last_BL), last_BL.device)[2]
    next_B = torch.maximum(before_B, last_BL.amax(1) + 1)
    if state is None or state.past_i is None or state.past_valid is None:
        past_i, past_valid = Growing.of(scene.positions(scene.start), 1), Growing.of(valid_BP, 1)
    else:
        past_i, past_valid = state.past_i.append(scene.i_BL), state.past_valid.append(scene.valid_BL)
    return State(parts, start, next_B, past_i, past_valid, **source)


def _history(state: State | None, batch: int, device: torch.device) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """Positions and validity of earlier tokens, as tensors even if the past was even, and the next position per row."""
    if state is None or state.start == 0:
        return None, None, torch.zeros(batch, dtype=torch.long, device=device)
    if state.past_i is not None and state.past_valid is not None and state.next_B is not None:
        return state.past_i.value, state.past_valid.value, state.next_B
    i_BP = torch.arange(state.start, device=device).expand(batch, -1)
    return i_BP, torch.ones_like(i_BP, dtype=torch.bool), torch.full((batch,), state.start, device=device)


def _segment_starts(segments: Sequence[int], start: int, length: int, device: torch.device) -> Tensor:
    if sum(segments) != length:
        raise ValueError(
            f"segments: lengths {tuple(segments)} add up to {sum(segments)}, the input has {length} tokens"
        )
    counts = torch.tensor(segments, device=device)
    return start + (counts.cumsum(0) - counts).repeat_interleave(counts)


def freeze(stack: Stack, state: State) -> State:
    """Remembered hidden states turned into keys and values once, for inference; consumes the state."""
    state.take()
    device = next(stack.parameters()).device
    return replace(state, parts=stack.freeze(state.parts, _empty_scene(state, device)), used=False)


def _empty_scene(state: State, device: torch.device) -> Scene:
    """No new token, and the past that the state knows."""
    if state.past_i is None or state.past_valid is None:
        return Scene(torch.empty(1, 0, dtype=torch.long, device=device), state.start)
    nothing_B0 = state.past_i.value[:, :0]
    return Scene(nothing_B0, state.start, nothing_B0.bool(), state.past_i.value, state.past_valid.value)
