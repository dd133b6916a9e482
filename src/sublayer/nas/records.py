"""The two records of a search: search.json, what was asked, and front.json, what it came to.

A search writes them; the training of the front, the command line and reports read them. Fields that older versions did
not write have defaults, fields that later ones add are ignored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictFloat, StrictInt, StrictStr, ValidationError

from sublayer.runs import sealed_json

Number = StrictInt | StrictFloat
"""An integer stays one, so that a file that is read and written again has the same bytes."""


def _without_nulls(values: Any) -> Any:
    return {name: value for name, value in values.items() if value is not None} if isinstance(values, dict) else values


class SearchRecord(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    def to_json(self) -> dict[str, Any]:
        """Plain data, as the file has it."""
        return json.loads(json.dumps(self.model_dump()))

    @classmethod
    def from_json(cls, data: Any, path: Path) -> Self:
        """From the data of a file; ValueError in one line where it holds something else."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(step) for step in first["loc"])
            raise ValueError(
                f"{path}: not what a search writes ({where}: {first['msg']}), so it was damaged or edited; remove it, "
                "and the search writes it again"
            ) from None


class SearchGoal(SearchRecord):
    """A figure that a search minimises or maximises."""

    name: StrictStr
    direction: Literal["minimize", "maximize"] = "minimize"
    unit: StrictStr = ""

    @property
    def sign(self) -> int:
        """The factor that makes lower values better."""
        return -1 if self.direction == "maximize" else 1


class MeasuredFigures(SearchRecord):
    """A model's latency in seconds at the device's quiet pace, with its 95 % interval, and its peak memory in bytes."""

    latency: Number | None = None
    low: Number | None = None
    high: Number | None = None
    memory: Number | None = None
    raw: Number | None = None
    """Seconds as the clock showed them."""
    disturbed: StrictStr | None = None
    """What spoils the latency; None if nothing does."""

    def value(self, name: str) -> float | None:
        """A figure by name; None where it is not one that is measured."""
        return getattr(self, name) if name in ("latency", "memory") else None


class FrontModel(SearchRecord):
    """A model of the front: its predicted figures, and what was measured and trained since."""

    number: StrictInt
    """The number of its trial."""
    config: dict[str, Any] = {}
    layout: StrictStr = ""
    values: Annotated[dict[str, Number], BeforeValidator(_without_nulls)]
    """Counted, predicted and scored figures by name."""
    measured: MeasuredFigures | None = None
    within: bool | None = None
    """Whether it is within the limits as measured; None where it was not measured, or disturbed."""
    run: StrictStr | None = None
    """The folder of its run, relative to the search's."""

    def measured_value(self, name: str) -> float | None:
        return None if self.measured is None else self.measured.value(name)


class BudgetModel(SearchRecord):
    """The model whose latency is the limit, measured in the same race as the front."""

    config: dict[str, Any]
    measured: MeasuredFigures | None = None


class PredictorErrors(SearchRecord):
    """Median relative errors of the predictions, over the models of the front that were measured."""

    models: StrictInt = 0
    latency: Number | None = None
    memory: Number | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_json().items() if value is not None}


class CountedFor(SearchRecord):
    """The tokens that FLOPs are counted for."""

    length: StrictInt
    memory: StrictInt | None = None


class SearchRequest(SearchRecord):
    """search.json. Two searches with equal requests propose the same candidates."""

    space: dict[str, Any]
    objectives: tuple[SearchGoal, ...]
    limits: dict[str, Number]
    """Figure → its largest value, in seconds, bytes or units."""
    method: StrictStr
    seed: StrictInt
    population: StrictInt
    iterations: StrictInt
    counted: CountedFor
    setting: dict[str, Any] | None = None
    """What is measured; None where candidates are not judged by this device."""
    device: dict[str, Any] | None = None
    """The device's fingerprint, where latency or memory matters."""
    text: StrictStr | None = None
    """The hash of the text, where a proxy reads it."""
    budget: dict[str, Any] | None = None
    """The config of the model whose latency is a limit."""

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_json().items() if value is not None}


OPTIONAL = ("text", "budget", "disturbed")
"""Fields of front.json that are left out where there is nothing to say."""


class SearchResult(SearchRecord):
    """front.json."""

    format: StrictInt = sealed_json.FORMAT
    objectives: tuple[SearchGoal, ...]
    limits: dict[str, Number] = {}
    """Those asked for; latency is that of the budget, where there is one, as measured with the front."""
    trials: StrictInt = 0
    feasible: StrictInt | None = None
    """Trials within the limits."""
    hypervolume: Number | None = None
    hypervolumes: tuple[Number | None, ...] = ()
    """After each generation, as a share of the box between `ideal` and `reference`."""
    generations: tuple[StrictInt, ...] = ()
    """Trials there were after each generation."""
    ideal: tuple[Number, ...] = ()
    """The best value of each objective."""
    reference: tuple[Number, ...] = ()
    """A point a little beyond the worst values."""
    device: dict[str, Any] | None = None
    setting: dict[str, Any] | None = None
    predictor: PredictorErrors | None = None
    disturbed: StrictStr | None = None
    """What disturbed the readings that predictions are made from; None if nothing did."""
    budget: BudgetModel | None = None
    text: StrictStr | None = None
    sources: dict[str, StrictStr] = {}
    """Where each of the front's `values` comes from: counted, predicted or scored; `measured` is beside them."""
    front: tuple[FrontModel, ...]

    def to_json(self) -> dict[str, Any]:
        data = super().to_json()
        data = {name: value for name, value in data.items() if value is not None or name not in OPTIONAL}
        if self.predictor is not None:
            data["predictor"] = self.predictor.to_json()
        return data

    def replace(self, number: int, **changes: Any) -> SearchResult:
        """The result with fields of one model of the front changed."""
        front = (one.model_copy(update=changes) if one.number == number else one for one in self.front)
        return self.model_copy(update={"front": tuple(front)})
