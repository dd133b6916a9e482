"""What the benchmark of reversible stacks compares: the same sizes, and steps that run."""

import pytest
import reversible as benchmark


@pytest.mark.parametrize("name", benchmark.CONTESTANTS)
def test_contestants_have_equal_weights_and_a_gradient(name):
    model, step = benchmark.build(name, 1, 16)
    step(16)
    sizes = [weight.grad.nbytes for weight in model.parameters() if weight.grad is not None]
    assert sum(sizes) == benchmark.gradient_bytes(name, 1, 16) == benchmark.gradient_bytes("plain", 1, 16)
