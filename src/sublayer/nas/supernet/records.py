"""figures.json of a supernet search: the data of figures 2, 3 and 4 of Mandava et al. 2020."""

from __future__ import annotations

from sublayer.runs.record import Record


class LetterCounts(Record):
    """How often a letter occurs in a third of the slots: one count per seed, their mean and standard deviation."""

    mean: float | None
    std: float | None = 0.0
    counts: list[int] = []


class BaseModels(Record):
    """The base, trained with several seeds."""

    layout: str = ""
    attention: int | None = None
    """Number of attention sublayers."""
    seeds: list[int] = []
    perplexities: list[float | None] = []
    mean: float | None
    """None if all diverged."""
    std: float | None = 0.0


class FoundModel(Record):
    """A model that the search of one seed found."""

    seed: int | None = None
    word: str = ""
    """A letter for each slot, - for identity."""
    layout: str | None = ""
    attention: int
    perplexity: float | None = None


class ParModel(Record):
    """A model by PAR's rule with coefficient p."""

    p: float
    layout: str | None = ""
    attention: int
    perplexity: float | None = None


class Figure2(Record):
    points: list[FoundModel] = []


class Figure3(Record):
    thirds: list[dict[str, LetterCounts]] = []


class Figure4(Record):
    points: list[ParModel] = []


class SupernetFigures(Record):
    """figures.json."""

    format: int = 1
    metric: str = "perplexity"
    places: int = 0
    """Number of slots."""
    letters: str = "sf-"
    attention: list[str] = []
    """The letters that are attentions."""
    base: BaseModels | None = None
    diverged: dict[str, str] = {}
    """Run → reason."""
    figure2: Figure2
    figure3: Figure3 = Figure3()
    figure4: Figure4 = Figure4()

    @property
    def found(self) -> list[FoundModel]:
        """Models that were trained to the end."""
        return [one for one in self.figure2.points if one.perplexity is not None]
