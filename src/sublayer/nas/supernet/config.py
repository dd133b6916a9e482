"""How a supernet is searched: the `search.…` keys."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from sublayer.nn.config import Config, Count, Positive, Rate

NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, lt=1)]


class SearchConfig(Config, tag="supernet_search"):
    """Mandava et al. 2020, section 2.2; temperatures are FBNet's (Wu et al. 2019), which it follows."""

    renamed: ClassVar[dict[str, str]] = {
        "still": "warmup",
        "hot": "tau_start",
        "cold": "tau_end",
        "settled": "patience",
    }

    steps: Count = 500
    """Steps of one search, of both phases together (paper: 50,000)."""
    letters: str = "sf-"
    """The choices at each slot; - is the identity."""
    paths: Literal["all", "one"] = "all"
    """all: every letter at every slot is run and mixed. one: one path is drawn for each step, which costs no more than
    the base."""
    warmup: Rate = 0.2
    """Share of the steps, at first, in which the architecture stays uniform (paper: 10,000 of 50,000)."""
    share: Share = 0.2
    """Share of each later round, and of the text, that the architecture gets."""
    round: Annotated[int, Field(ge=2)] | None = None
    """Steps of a round, in which each phase comes once; null: an epoch, or a tenth of the steps after the warm-up if
    that is less."""
    lr: Positive = 1e-2
    """Learning rate of the architecture, by Adam."""
    decay: NotNegative = 5e-4
    """Weight decay of the architecture, added to its gradient."""
    tau_start: Positive = 5.0
    """Temperature of the Gumbel-softmax during the warm-up."""
    tau_end: Positive = 0.1
    """Temperature at the end; it falls by the same factor each step."""
    patience: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Stop when the word has not changed for this share of all steps of the architecture."""
    latency_weight: NotNegative = 0.0
    """Nats that a second of expected latency adds to the loss."""
    latencies: dict[str, NotNegative] = {}
    """Letter → seconds; the identity takes 0."""
    log_every: Count = 10
    """Steps between lines of metrics."""
    save_every: Count | None = None
    """Steps between checkpoints; null: a tenth of the steps."""

    @model_validator(mode="after")
    def _possible(self) -> SearchConfig:
        if self.tau_end > self.tau_start:
            raise ValueError(
                f"tau_end={self.tau_end:g} is above tau_start={self.tau_start:g}; the temperature falls, use less"
            )
        wanted = [letter for letter in self.letters if letter != "-"] if self.latency_weight else []
        if missing := [letter for letter in wanted if letter not in self.latencies]:
            raise ValueError(
                f"latency_weight={self.latency_weight:g} needs the latency of {missing[0]!r}; give seconds for "
                f"each of {', '.join(wanted)}"
            )
        return self

    @property
    def saves_every(self) -> int:
        return self.save_every or max(1, self.steps // 10)
