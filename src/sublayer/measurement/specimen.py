"""Specimens: small models from which entries of the table are measured; each repeats one sublayer of a candidate."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sublayer.nn.model import Model
from sublayer.nn.part import Part

LETTER = "p"
FEW_WORDS = 32
"""A vocabulary whose embedding and head cost nearly nothing."""
SLIGHT = 8
"""Inner width of the one sublayer of a frame, which costs nearly nothing."""
CACHES = 64 << 20
"""Bytes of weights that no cache holds."""
MOST_COPIES = 16
"""Deeper models are rare; small sublayers in this many copies stay in the caches, as they do in use."""


@dataclass(frozen=True)
class Kind:
    """A sublayer without its sizes: those are interpolated, everything else is not."""

    around: str
    """The model around it, as JSON without sizes."""
    part: str | None = None
    """The part, as JSON without its inner width; None for a frame: embedding, head and what a pass does once."""

    def model(self, dim: int, inner: int | None, copies: int = 1) -> Model.Config:
        """The specimen. Raises ConfigError where these sizes cannot be, as heads that do not divide dim."""
        data: dict[str, Any] = json.loads(self.around)
        part = {"kind": "dense", "inner": SLIGHT} if self.part is None else json.loads(self.part)
        part |= {} if inner is None else {"inner": inner}
        data["stack"] |= {"alphabet": {LETTER: part}, "layout": f"({LETTER})x{copies}"}
        return Model.Config.parse(data | {"dim": dim})

    @property
    def frame(self) -> Kind:
        """The kind of the specimen without its sublayers."""
        return Kind(self.around)


class Specimens:
    """The kinds that a candidate is made of."""

    def __init__(self, config: Model.Config) -> None:
        self.dim = config.dim
        data: dict[str, Any] = config.dump() | {"dim": None}
        stack = data["stack"] | {"vary": {}, "alphabet": {}, "layout": ""}
        few = {"vocab": FEW_WORDS, "embedding": {"kind": "token"}, "head": {"kind": "tied"}}
        minimal = {"stack": stack | {"final_norm": {"kind": "none"}}}
        self.frame = Kind(_json(data | {"stack": stack}))
        self._around = _json(data | few | minimal)
        minimal["stack"] |= {"position": {"kind": "none"}}
        self._anywhere = _json(data | few | minimal)

    def sublayer(self, part: Part.Config) -> tuple[Kind, int | None]:
        """The kind of a sublayer and its inner width, None if its part has none."""
        width = getattr(part, "width", None) if hasattr(part, "inner") else None
        fields = {name: value for name, value in part.dump().items() if name != "inner" or width is None}
        around = self._around if part.attends else self._anywhere  # positions matter to attention alone
        return Kind(around, _json(fields)), None if width is None else width(self.dim)


def copies(specimen: Model.Config) -> int:
    """Number of copies whose weights together do not fit the caches, up to MOST_COPIES."""
    (stack,) = specimen.stacks.values()
    size = 4 * stack.parts[0].params(stack.slot(specimen.dim))
    return max(2, min(MOST_COPIES, CACHES // max(1, size)))


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True)
