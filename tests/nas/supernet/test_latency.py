"""Latencies of letters, from a teller of whole models."""

import pytest

from sublayer.nas.supernet.latency import latencies
from sublayer.nn import layout as layouts
from tests.nas.supernet.small import base


def test_what_lies_around_the_sublayers_falls_out():
    takes = {"s": 0.3, "f": 0.125}

    def latency(config):
        return 7.0 + sum(takes[letter] for letter in layouts.expand(config.stack.layout))

    assert latencies(base("transformer-xl"), "sf-", latency) == pytest.approx(takes)


def test_noise_never_makes_a_letter_pay():
    assert latencies(base(), "f-", lambda config: 1.0 / len(config.stack.parts)) == {"f": 0.0}
