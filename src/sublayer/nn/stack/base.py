"""Stack: owns the loop over sublayers. Its config holds the layout; `vary` makes letters differ by occurrence."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any, ClassVar, Literal, get_origin

import torch
from jaxtyping import Float
from pydantic import field_validator, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn import layout as layouts
from sublayer.nn.config import Config, ConfigError, Rate, unknown
from sublayer.nn.linear import widen
from sublayer.nn.part import Part, Slot, Work
from sublayer.nn.position import NoPosition, Position
from sublayer.nn.residual import NoNorm, Norm, PreNorm, Residual
from sublayer.nn.scene import Scene
from sublayer.nn.shared import SharedModules


class Stack(nn.Module):
    """Abstract: x through all sublayers, each with its own state."""

    class Config(Config, family="stack"):
        shortcuts: ClassVar[tuple[str, ...]] = ("alphabet",)
        added = frozenset({"dropout"})

        layout: str = "(sf)x6"
        """The order of sublayers: one letter each, groups with repeats."""
        alphabet: dict[str, Part.Config]
        """Letter → part."""
        vary: dict[str, list[Any]] = {}
        """Per-occurrence values: {"s.heads": [2, 4, 2]}."""
        residual: Residual.Config = PreNorm.Config()
        """The norm and shortcut that make a part a sublayer."""
        position: Position.Config = NoPosition.Config()
        """How the model knows the order of tokens."""
        final_norm: Norm.Config = NoNorm.Config()
        """Norm on the output of the last sublayer."""
        dropout: Rate = 0.0
        """Dropout on the output of the stack, as in Transformer-XL."""
        spread: Literal["fixed", "width"] = "fixed"
        """Initial deviation of linear maps: 0.02, or 1/√inputs, with which a narrow stack learns much sooner to
        retrieve earlier tokens."""

        @field_validator("layout")
        @classmethod
        def _readable(cls, layout: str) -> str:
            if layouts.needs_base(layout):
                raise ValueError(
                    f"layout {layout!r} is a rule with no layout to stand on; name one: {layouts.put_on(layout, '12')}"
                )
            return layouts.write(layouts.parse(layouts.apply_rule(layout, "")))

        @field_validator("alphabet")
        @classmethod
        def _single_letters(cls, alphabet: dict[str, Part.Config]) -> dict[str, Part.Config]:
            for letter in alphabet:
                if len(letter) != 1 or not letter.isascii() or not letter.isalpha() or letter == "x":
                    raise ValueError(f"{letter!r} cannot be a letter of a layout; use one of a–z or A–Z, not x")
            return alphabet

        @model_validator(mode="after")
        def _spelled(self) -> Stack.Config:
            word = layouts.expand(self.layout)
            for letter in dict.fromkeys(word):
                if letter not in self.alphabet:
                    raise ValueError(
                        f"layout {self.layout!r} uses the letter {letter!r}, which the alphabet does not have; "
                        f"it has {', '.join(self.alphabet)}"
                    )
            counts = Counter(word)
            for key, values in self.vary.items():
                letter = key.split(".")[0]
                if letter not in self.alphabet or "." not in key:
                    raise ValueError(f"vary: {unknown('letter', letter, self.alphabet)}")
                if len(values) != counts[letter]:
                    raise ValueError(
                        f"vary.{key}: {len(values)} values for {counts[letter]} occurrences of {letter!r} in "
                        f"{self.layout!r}; give one value for each"
                    )
            _ = self.parts
            return self

        @cached_property
        def parts(self) -> tuple[Part.Config, ...]:
            """The part in each slot, with the values of `vary` and what depends on depth filled in."""
            counts = Counter(letter for letter, _, _ in self._varied)
            return tuple(part.at(nth, counts[letter]) for letter, nth, part in self._varied)

        @property
        def varied(self) -> tuple[Part.Config, ...]:
            """The part in each slot, with the values of `vary` filled in, and what depends on depth not."""
            return tuple(part for _, _, part in self._varied)

        @cached_property
        def _varied(self) -> tuple[tuple[str, int, Part.Config], ...]:
            """For each slot its letter, how often that came before, and the part with the values of `vary`."""
            seen, found = Counter[str](), []
            for letter in layouts.expand(self.layout):
                changes = {
                    key.split(".", 1)[1]: values[seen[letter]]
                    for key, values in self.vary.items()
                    if key.split(".", 1)[0] == letter
                }
                part = self.alphabet[letter]
                found.append((letter, seen[letter], part.override(changes) if changes else part))
                seen[letter] += 1
            return tuple(found)

        def check_length(self, length: int) -> None:
            """Raise ValueError where texts of so many tokens are too short for a part to be what it says."""
            for letter, _, part in self._varied:
                try:
                    part.check_length(length)
                except ValueError as error:
                    raise ConfigError(f"{letter}.{error}") from None

        def assign(self, data: dict[str, Any], path: list[str], value: Any) -> None:
            """A list for a letter's plain field varies it; a rule for the layout rewrites the one that is there."""
            if path == ["layout"] and isinstance(value, str):
                value = layouts.apply_rule(value, data["layout"])
            if path[0] == "alphabet" and len(path) > 2:
                letter, key = path[1], ".".join(path[1:])
                data["vary"] = {name: values for name, values in data.get("vary", {}).items() if name != key}
                if isinstance(value, list) and not _takes_list(data["alphabet"].get(letter), path[2]):
                    data["vary"][key] = value
                    return
            super().assign(data, path, value)

        def build(self, dim: int) -> Stack:
            stack = self.owner(self, dim)
            stack.dropout = self.dropout
            return stack

        def slot(
            self, dim: int, shared: Position | None = None, index: int = 0, common: SharedModules | None = None
        ) -> Slot:
            return Slot(dim, self.position, shared, index, len(self.parts), common)

        @cached_property
        def numbered(self) -> tuple[tuple[int, Part.Config], ...]:
            """Each part with its index."""
            return tuple(enumerate(self.parts))

        def params(self, dim: int) -> int:
            """Parameters of sublayers and what they share; positions that embed and the final norm are separate."""
            parts = sum(part.params(self.slot(dim, index=n)) for n, part in self.numbered)
            return self.shared_params(dim) + parts + len(self.parts) * self.residual.params(dim)

        def position_params(self, dim: int) -> int:
            """Parameters of positions that embed."""
            return self.position.params(dim, self.head_dim(dim)) if self.position.embeds else 0

        def shared_params(self, dim: int) -> int:
            """Parameters that layers share: those of positions, and of modules that parts have in common."""
            positions = 0 if self.position.embeds else self.position.params(dim, self.head_dim(dim))
            common: dict[str, int] = {}
            for n, part in self.numbered:
                common |= part.shared_params(self.slot(dim, index=n))
            return positions + sum(common.values())

        def head_dim(self, dim: int) -> int:
            """Head size of the first attention; the whole width where there is none."""
            sizes = (part.head_dim_in(dim) for part in self.parts)
            return next((size for size in sizes if size is not None), dim)

        @property
        def remembered(self) -> int:
            """How many tokens the longest bounded memory of the stack stores; 0 if none is bounded."""
            return max((part.remembered for part in self.parts), default=0)

        @property
        def bounded(self) -> bool:
            """Whether its state stops growing, however long the text."""
            return all(part.bounded for part in self.parts)

        @property
        def carries(self) -> bool:
            """Whether training should pass its state on from batch to batch."""
            return any(part.carries for part in self.parts)

        @property
        def splits(self) -> bool:
            """Whether its mathematics depends on where segments are cut."""
            return any(part.splits for part in self.parts)

        @property
        def shortest_text(self) -> int:
            """Tokens of the shortest text in which all its parameters have an effect."""
            return max((part.shortest_text for part in self.parts), default=1)

        @property
        def searches(self) -> bool:
            """Whether it holds the choices of a search, of which a pass in eval mode runs some only."""
            return False

        def flops(self, dim: int, work: Work) -> int:
            parts = sum(part.flops(self.slot(dim, index=n), work) for n, part in self.numbered)
            return parts + len(self.parts) * self.residual.flops(dim, work.length)

        def state_size(self, dim: int, work: Work) -> int:
            """Numbers in its state, per row; see `Part.Config.state_size`."""
            return sum(part.state_size(self.slot(dim, index=n), work) for n, part in self.numbered)

        def activation_size(self, dim: int, work: Work, rows: int = 1) -> int:
            """Numbers certainly held at one time in a pass; a lower bound."""
            return rows * work.length * dim

    dropout: float = 0.0
    steps: ClassVar[bool] = False
    """Whether it reads token after token even where all are given: then a short prompt may go through a fast step."""
    calls: ClassVar[str] = "forward"
    """The method of its sublayers that it calls; what wraps sublayers (FSDP2) has to wrap that one."""
    recomputes: ClassVar[bool] = False
    """Whether its backward pass finds activations again by itself, so that checkpoints would only cost time."""

    sublayers: nn.ModuleList
    position: Position
    shared: SharedModules
    """What its layers share besides the position."""

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, states: tuple[Any, ...] | None
    ) -> tuple[Float[Tensor, "B L D"], tuple[Any, ...]]:
        raise NotImplementedError

    def leave(self, h_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """The output of the stack, with dropout in training."""
        return F.dropout(h_BLD, self.dropout, self.training) if self.dropout else h_BLD

    def freeze(self, states: tuple[Any, ...], scene: Scene) -> tuple[Any, ...]:
        """The states in the form for inference; unchanged is always right. The segment of `scene` is empty."""
        return states


@torch.no_grad()
def init_weights(stack: Stack, config: Stack.Config, depth: int) -> None:
    """Initialise the weights. Where the stream sums `depth` parts, each is scaled by 1/√depth, so that the sum does not
    grow with depth (GPT-2)."""
    if config.spread == "width":
        widen(stack)
    if not config.residual.sums:
        return
    for sublayer in stack.sublayers:
        part: Part = sublayer.part  # pyright: ignore[reportAssignmentType]
        for output in part.output_maps:
            output.weight.mul_(depth**-0.5)


def _takes_list(part: Any, field: str) -> bool:
    """Whether a part, given as plain data, has a field that is itself a list."""
    kind = part.get("kind") if isinstance(part, dict) else part
    config = Part.Config.registry.get(str(kind))
    known = config.model_fields.get(field) if config else None
    return known is not None and get_origin(known.annotation) in (list, tuple)
