"""Specimens: models off which an entry of the table is read; what they have of a candidate is one sublayer, or none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sublayer.nn.model import Model
from sublayer.nn.model.single import SingleStack
from sublayer.nn.part import Part, Slot

LETTER = "p"
FEW_WORDS = 32
"""A vocabulary that costs nothing."""
SLIGHT = 8
"""Inner width of the one sublayer of a frame: nearly nothing."""
CACHES = 64 << 20
"""Bytes of weights that no cache holds."""
MOST_COPIES = 16
"""Deeper models are rare, and small sublayers in as many copies stay in the caches, as they do in use."""


@dataclass(frozen=True)
class Kind:
    """All that a sublayer is but its sizes: those are interpolated, the rest is not."""

    around: str
    """The model around it, as JSON without sizes."""
    part: str | None = None
    """The part, as JSON without its inner width; None for a frame: embedding, head and what a pass does once."""

    def model(self, dim: int, inner: int | None, copies: int = 1) -> SingleStack.Config:
        """The specimen. Raises ConfigError where these sizes cannot be, as heads that do not divide dim."""
        data: dict[str, Any] = json.loads(self.around)
        part = {"kind": "dense", "inner": SLIGHT} if self.part is None else json.loads(self.part)
        part |= {} if inner is None else {"inner": inner}
        data["stack"] |= {"alphabet": {LETTER: part}, "layout": f"({LETTER})x{copies}"}
        made = Model.Config.parse(data | {"dim": dim})
        assert isinstance(made, SingleStack.Config)
        return made

    @property
    def frame(self) -> Kind:
        """What the specimen takes without its sublayers."""
        return Kind(self.around)


class Specimens:
    """The kinds that a candidate is made of."""

    def __init__(self, config: SingleStack.Config) -> None:
        self.dim = config.dim
        data: dict[str, Any] = config.dump() | {"dim": None}
        stack = data["stack"] | {"vary": {}, "alphabet": {}, "layout": ""}
        few = {"vocab": FEW_WORDS, "embedding": {"kind": "token"}, "head": {"kind": "tied"}}
        bare = {"stack": stack | {"final_norm": {"kind": "none"}}}
        self.frame = Kind(_json(data | {"stack": stack}))
        self._around = _json(data | few | bare)
        bare["stack"] |= {"position": {"kind": "none"}}
        self._anywhere = _json(data | few | bare)

    def sublayer(self, part: Part.Config) -> tuple[Kind, int | None]:
        """The kind of a sublayer and its inner width, None if its part has none."""
        width = getattr(part, "width", None) if hasattr(part, "inner") else None
        told = {name: value for name, value in part.dump().items() if name != "inner" or width is None}
        around = self._around if hasattr(part, "position") else self._anywhere  # what places are does not concern it
        return Kind(around, _json(told)), None if width is None else width(self.dim)


def copies(specimen: SingleStack.Config) -> int:
    """So many that their weights do not stay in the caches, within reason."""
    part = specimen.stack.parts[0]
    size = 4 * part.params(Slot(specimen.dim, specimen.stack.position))
    return max(2, min(MOST_COPIES, CACHES // max(1, size)))


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True)
