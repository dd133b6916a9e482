"""Where a text ends: at an id, at a sequence of ids, or when it is long enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sublayer.generation.prompts import is_list

Stop = int | Sequence[int]
Stops = tuple[tuple[int, ...], ...]


def met(ids: Sequence[int], stops: Stops) -> int:
    """Length of the longest stop sequence at the end of the ids; 0 if there is none."""
    return max((len(stop) for stop in stops if tuple(ids[-len(stop) :]) == stop), default=0)


class WrittenText:
    """One row as it is written; the stop sequence and anything after it are left out."""

    def __init__(self, stops: Stops, tokens: int) -> None:
        self.stops, self.tokens = stops, tokens
        self.ids: list[int] = []
        self.done = tokens == 0
        self._given = 0

    def add(self, token: int) -> None:
        self.ids.append(token)
        end = met(self.ids, self.stops)
        self.done = end > 0 or len(self.ids) == self.tokens
        del self.ids[len(self.ids) - end :]

    def new_ids(self) -> list[int]:
        """Ids that are new since the last call, without those that may yet turn out to begin a stop sequence."""
        end = len(self.ids) if self.done else len(self.ids) - self._held_back()
        new, self._given = self.ids[self._given : end], end
        return new

    def _held_back(self) -> int:
        """How many of the last ids begin a stop sequence."""
        longest = max((len(stop) for stop in self.stops), default=1) - 1
        for count in range(min(longest, len(self.ids)), 0, -1):
            if any(stop[:count] == tuple(self.ids[-count:]) for stop in self.stops if len(stop) > count):
                return count
        return 0


def sequences(stop: Iterable[Stop], eos: int | None) -> list[list[int]]:
    """All stops, as sequences of ids."""
    if not is_list(stop):
        raise ValueError(f"stop: expected a list of ids and of sequences of ids, got {stop!r}; write stop=[…]")
    ends = [*stop, *([] if eos is None else [eos])]
    found = [list(end) if isinstance(end, Iterable) else [end] for end in ends]
    if [] in found:
        raise ValueError("stop: an empty sequence would end every text at once; give at least one id")
    return found
