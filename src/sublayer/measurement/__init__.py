"""Measurement: what a model takes on this device, in time and in memory.

measure(configs)            reads whole models, each in a process of its own
Predictor(setting)          predicts any model from a table of its sublayers, measured once a device and kept

Everything that is timed is a model: an entry of the table is read off one that repeats the same sublayer, each time
with weights of its own, since a lone sublayer, whose weights stay in the caches, looks up to twice as fast.
"""

from sublayer.measurement.device import fingerprint
from sublayer.measurement.predictor import Errors, Estimate, Predictor
from sublayer.measurement.reading import Memory, Reading
from sublayer.measurement.setting import Setting
from sublayer.measurement.worker import Worker, measure

__all__ = [
    "Errors",
    "Estimate",
    "Memory",
    "Predictor",
    "Reading",
    "Setting",
    "Worker",
    "fingerprint",
    "measure",
]
