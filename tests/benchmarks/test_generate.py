"""What the generation benchmark compares, and by what limit: checked on tiny models, without a clock."""

import generate as benchmark
import pytest
import torch

from sublayer.nn.model import Decoder


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(benchmark, "DIM", 64)
    monkeypatch.setattr(benchmark, "LAYERS", 2)


def test_contestants_are_equal_and_write_what_was_asked():
    models, writers = benchmark.build(24, "gelu", ("hugging-face",))
    sizes = {sum(p.numel() for p in model.parameters()) for model in models.values()}
    assert len(sizes) == 1
    for run in benchmark.contestants(writers, benchmark.prompts(3, 4), 8).values():
        assert torch.as_tensor(run()).shape == (3, 8)


def test_ours_writes_the_same_with_and_without_native_code():
    _, writers = benchmark.build(24, "gelu", ("hugging-face",))
    prompt = benchmark.prompts(1, 4)
    assert writers["ours"](prompt, 12) == writers["ours-eager"](prompt, 12)


def test_a_contestant_that_stops_early_is_no_contestant():
    with pytest.raises(AssertionError, match=r"lazy wrote \{2\} ids, asked for 5"):
        benchmark.contestants({"lazy": lambda prompts, tokens: [[1, 2]]}, benchmark.prompts(1, 4), 5)


def test_the_limit_counts_what_a_token_reads():
    """Every matrix and vector of the stack and the head once, and two vectors a layer and place."""
    model = benchmark.our_config(benchmark.Shape(64, 2, 10), "gelu").build()
    assert isinstance(model, Decoder)
    weights = sum(p.numel() for p in model.stack.parameters()) + benchmark.VOCAB * 64
    positions = sum(p.numel() for p in model.stack.position.parameters()) if hasattr(model.stack, "position") else 0
    assert benchmark.bytes_a_token("gelu", 10) == 4 * (weights - positions + 2 * 2 * 64 * 10)
