"""Measurement: the latency and memory of models on this device.

measure(configs)            measures whole models, each in a process of its own
race(configs)               measures whole models in turn, and their ratios
Predictor(setting)          predicts any model from a table of its sublayers, which is measured once per device

Everything that is timed is a whole model: an entry of the table comes from one that repeats the same sublayer, each
time with its own weights, since a single sublayer, whose weights stay in the caches, is up to twice as fast.
"""

from sublayer.measurement.device import fingerprint
from sublayer.measurement.predictor import Errors, Estimate, Predictor
from sublayer.measurement.ratios import Race, Ratio
from sublayer.measurement.reading import Memory, Reading
from sublayer.measurement.setting import Setting
from sublayer.measurement.whole_models import measure, race
from sublayer.measurement.worker import Worker

__all__ = [
    "Errors",
    "Estimate",
    "Memory",
    "Predictor",
    "Race",
    "Ratio",
    "Reading",
    "Setting",
    "Worker",
    "fingerprint",
    "measure",
    "race",
]
