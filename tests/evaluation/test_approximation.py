"""Errors against exact attention fall as the theory says."""

import pytest

from sublayer.evaluation.approximation import approximation_errors
from sublayer.nn.attention import MultiHead
from sublayer.nn.attention.kernel import RFA, Performer


@pytest.mark.parametrize("kernel", [Performer.Config(), RFA.Config(), RFA.Config(gate=True)], ids=str)
def test_errors_fall_with_the_root_of_the_number_of_features(kernel):
    parts = (MultiHead.Config(heads=4, kv_heads=2, kernel=kernel.but(features=count)) for count in (64, 4096))
    (few,), (many,) = (approximation_errors(part, 64, [0.25]) for part in parts)
    assert few / many == pytest.approx(8, rel=0.4)


def test_what_is_exact_has_no_error_to_measure():
    for kernel in ("softmax", "retention", Performer.Config(form="relu")):
        assert approximation_errors(MultiHead.Config(heads=2, kernel=kernel), 32, [1.0]) == []
