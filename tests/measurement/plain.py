"""Readings and conditions with little in them, for tests that care about one field."""

from sublayer.measurement import Memory, Reading
from sublayer.measurement.conditions import Conditions
from sublayer.measurement.pace import Pace, Shares

PACE = Pace(1e-3, 1e-3, 1e-3)


def conditions(**changes) -> Conditions:
    quiet = {"repeats": 9, "clean": 9, "waited": 0.0, "cpu": 1.0, "switches": 0.0, "others": 0.0, "stolen": 0.0}
    return Conditions(**{**quiet, "load": 0.0, "threads": 1, "cores": 2, **changes})


def reading(latency=1e-3, *, pace=PACE, low=None, high=None, parts=None, **conditions_of) -> Reading:
    """Changes of conditions are keyword arguments."""
    return Reading(
        latency,
        low or latency,
        high or latency,
        9,
        parts or Memory(1, 1, 1, 1),
        {"id": "d"},
        raw=latency,
        pace=pace,
        shares=Shares(1.0, 0.0, 0.0),
        conditions=conditions(**conditions_of),
    )
