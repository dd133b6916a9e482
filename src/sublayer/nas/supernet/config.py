"""How a supernet is searched, as data: what `search.…` keys set. Defaults that have a number are the paper's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sublayer.nn.config import Config, Count, Positive, Rate

NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, lt=1)]


class SearchConfig(Config, tag="supernet_search"):
    """Mandava et al. 2020, section 2.2; temperatures are FBNet's (Wu et al. 2019), which it follows."""

    steps: Count = 500
    """Of both phases together, in one search (paper: 50,000)."""
    letters: str = "sf-"
    """What may stand at each place; - is nothing at all."""
    paths: Literal["all", "one"] = "all"
    """all: every letter at every place is run and mixed. one: a path is drawn for each step, which costs no more than
    the base."""
    still: Rate = 0.2
    """Share of the steps, at first, in which the architecture stays uniform (paper: 10,000 of 50,000)."""
    share: Share = 0.2
    """Of each round after that, and of the text, for the architecture."""
    round: Annotated[int, Field(ge=2)] | None = None
    """Steps in which each phase comes once; null: an epoch, or a tenth of what is left if that is less."""
    lr: Positive = 1e-2
    """Of the architecture, by Adam."""
    decay: NotNegative = 5e-4
    """Of the architecture, added to its gradient."""
    hot: Positive = 5.0
    """The temperature while the architecture is still."""
    cold: Positive = 0.1
    """The temperature at the end; it falls by the same factor each step."""
    settled: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Stop when the word has not changed for so much of all steps of the architecture."""
    latency_weight: NotNegative = 0.0
    """What a second of expected latency adds to the loss, in nats."""
    latencies: dict[str, NotNegative] = {}
    """Letter → seconds; the identity takes none."""
    log_every: Count = 10
    """Steps between lines of metrics."""
    save_every: Count | None = None
    """Steps between checkpoints; null: a tenth of the steps."""

    @model_validator(mode="after")
    def _possible(self) -> SearchConfig:
        if self.cold > self.hot:
            raise ValueError(f"cold={self.cold:g} is above hot={self.hot:g}; the temperature falls, use less")
        wanted = [letter for letter in self.letters if letter != "-"] if self.latency_weight else []
        if missing := [letter for letter in wanted if letter not in self.latencies]:
            raise ValueError(
                f"latency_weight={self.latency_weight:g} needs to know what {missing[0]!r} takes; give seconds for "
                f"each of {', '.join(wanted)}"
            )
        return self

    @property
    def saves_every(self) -> int:
        return self.save_every or max(1, self.steps // 10)
