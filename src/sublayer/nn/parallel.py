"""Parts side by side: each is given the same input, and their outputs are summed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Annotated, Any, ClassVar, cast

from jaxtyping import Float
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from sublayer.nn import paths
from sublayer.nn.attention.multihead import MultiHead
from sublayer.nn.attention.pattern import Pattern
from sublayer.nn.feedforward import Dense
from sublayer.nn.limits import most
from sublayer.nn.part import Part, Slot, Work
from sublayer.nn.position.base import Position
from sublayer.nn.scene import Scene


class Parallel(Part):
    """Σ_n part_n(x).

    Attention's output is a sum over its heads, y = Σ_h head_h(x) W_h, so attentions side by side are one attention
    whose heads are of several kinds: some local, some routed (Roy et al. 2021). Attention beside a feed-forward is the
    layer of GPT-J and PaLM. Each part has an output bias of its own, where one would do.

    A position that acts inside attention is used by the parts that can; at least one must.
    """

    class Config(Part.Config, tag="parallel"):
        shortcuts: ClassVar[tuple[str, ...]] = ("parts",)

        parts: Annotated[dict[str, Part.Config], Field(min_length=1)] = {
            "attention": MultiHead.Config(),
            "feedforward": Dense.Config(),
        }
        """Name → part. With parts `local` and `routed`, `s.local.heads=4` reaches inside."""

        @field_validator("parts")
        @classmethod
        def _named(cls, parts: dict[str, Part.Config]) -> dict[str, Part.Config]:
            for name, part in parts.items():
                if not name.isidentifier() or hasattr(nn.ModuleDict, name) or name in ("kind", *cls.model_fields):
                    raise ValueError(f"{name!r} cannot be the name of a part; use a word such as local or routed")
                if part.needs_source:
                    raise ValueError(f"{name}: {part.tag} reads a source; give it a letter of its own in the layout")
            return parts

        @model_validator(mode="after")
        def _one_direction(self) -> Parallel.Config:
            ways = {part.both_ways: name for name, part in self._attending}
            if len(ways) == 2:
                raise ValueError(f"parts: {ways[True]} looks both ways, {ways[False]} back; let both look one way")
            return self

        def __hash__(self) -> int:
            return hash(frozenset(self.parts.items()))

        def assign(self, data: dict[str, Any], path: list[str], value: Any) -> None:
            super().assign(data, ["parts", *path] if path[0] in self.parts else path, value)

        @property
        def _attending(self) -> list[tuple[str, Part.Config]]:
            return [(name, part) for name, part in self.parts.items() if part.attends]

        def _each(self, change: Callable[[Part.Config], Part.Config]) -> Parallel.Config:
            changed = {name: change(part) for name, part in self.parts.items()}
            return self if changed == self.parts else type(self)(parts=changed)

        def at(self, nth: int, count: int) -> Parallel.Config:
            return self._each(lambda part: part.at(nth, count))

        @property
        def image_row(self) -> int | None:
            return next((row for part in self.parts.values() if (row := part.image_row) is not None), None)

        def for_images(self, row: int) -> Parallel.Config:
            return self._each(lambda part: part.for_images(row))

        @property
        def attends(self) -> bool:
            return bool(self._attending)

        @property
        def both_ways(self) -> bool:
            return any(part.both_ways for part in self.parts.values())

        @property
        def patterns(self) -> tuple[Pattern.Config, ...]:
            found = [part.patterns for _, part in self._attending]
            return tuple(pattern for patterns in found for pattern in patterns) if all(found) else ()

        @property
        def sees(self) -> int | None:
            return most(part.sees for part in self.parts.values())

        @property
        def view(self) -> str:
            return " and ".join(f"{name}'s {part.view}" for name, part in self._attending)

        def turned(self, causal: bool) -> str:
            return ", ".join(f"{name}.{part.turned(causal)}" for name, part in self._attending)

        @property
        def knows_globals(self) -> bool:
            return all(part.knows_globals for _, part in self._attending)

        def honours(self, position: Position.Config) -> bool:
            return any(part.honours(position) for _, part in self._attending)

        @property
        def splits(self) -> bool:
            return any(part.splits for part in self.parts.values())

        @property
        def carries(self) -> bool:
            return any(part.carries for part in self.parts.values())

        @property
        def reach(self) -> int | None:
            return most(part.reach for part in self.parts.values())

        @property
        def bounded(self) -> bool:
            return all(part.bounded for part in self.parts.values())

        @property
        def remembered(self) -> int:
            return max(part.remembered for part in self.parts.values())

        def head_dim_in(self, dim: int) -> int | None:
            sizes = (part.head_dim_in(dim) for part in self.parts.values())
            return next((size for size in sizes if size is not None), None)

        def check(self, slot: Slot) -> None:
            for name, part in self.parts.items():
                try:
                    part.check(slot)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None

        def check_length(self, length: int) -> None:
            for name, part in self.parts.items():
                try:
                    part.check_length(length)
                except ValueError as error:
                    raise ValueError(f"{name}.{error}") from None

        def params(self, slot: Slot) -> int:
            return sum(part.params(slot) for part in self.parts.values())

        def flops(self, slot: Slot, work: Work) -> int:
            return sum(part.flops(slot, work) for part in self.parts.values())

        def state_size(self, slot: Slot, work: Work) -> int:
            return sum(part.state_size(slot, work) for part in self.parts.values())

        @property
        def state_varies(self) -> bool:
            return any(part.state_varies for part in self.parts.values())

        def activation_size(self, slot: Slot, work: Work, rows: int = 1) -> int:
            return max(part.activation_size(slot, work, rows) for part in self.parts.values())

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config = config
        self.parts = nn.ModuleDict({name: part.build(slot) for name, part in config.parts.items()})

    def _with_states(self, state: Any) -> Iterator[tuple[Part, Any]]:
        states = state or (None,) * len(self.parts)
        return zip(cast(list[Part], list(self.parts.values())), states, strict=True)

    def forward(self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None) -> tuple[Tensor, Any]:
        return _summed([part(x_BLD, scene, own) for part, own in self._with_states(state)])

    def forward_normed(
        self, norm: nn.Module, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        return _summed([part.forward_normed(norm, x_BLD, scene, own) for part, own in self._with_states(state)])

    def skip(self, norm: nn.Module, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None) -> Any:
        return _joined([part.skip(norm, x_BLD, scene, own) for part, own in self._with_states(state)])

    def freeze(self, norm: nn.Module, state: Any, scene: Scene) -> Any:
        return _joined([part.freeze(norm, own, scene) for part, own in self._with_states(state)])

    def path(self, mode: paths.Mode) -> paths.Choice:
        found = {name: cast(Part, part).path(mode) for name, part in self.parts.items()}
        reasons = ((f"{name}: {path}", reason) for name, one in found.items() for path, reason in one.why_not)
        return paths.Choice(", ".join(f"{name}: {one.path}" for name, one in found.items()), tuple(reasons))

    @property
    def output_maps(self) -> list[nn.Linear]:
        return [output for part, _ in self._with_states(None) for output in part.output_maps]

    def linearized(self) -> AbstractContextManager[object]:
        opened = ExitStack()
        for part, _ in self._with_states(None):
            opened.enter_context(part.linearized())
        return opened

    def score_weights(self) -> dict[str, slice]:
        own = ((name, cast(Part, part).score_weights()) for name, part in self.parts.items())
        return {f"parts.{name}.{weight}": rows for name, weights in own for weight, rows in weights.items()}

    @property
    def twin(self) -> str | None:
        """Those of the parts that attend, if each has one."""
        twins = [cast(Part, self.parts[name]).twin for name, _ in self.config._attending]
        known = [twin for twin in twins if twin is not None]
        return ", ".join(known) if known and len(known) == len(twins) else None


def _summed(found: list[tuple[Tensor, Any]]) -> tuple[Tensor, Any]:
    y_BLD = found[0][0]
    for more_BLD, _ in found[1:]:
        y_BLD = y_BLD + more_BLD
    return y_BLD, _joined([state for _, state in found])


def _joined(states: list[Any]) -> tuple[Any, ...] | None:
    """None where nothing is remembered."""
    return tuple(states) if any(state is not None for state in states) else None
