"""State: buffers that grow without copying, forks, rows, frozen memories."""

import pytest
import torch

import sublayer
from sublayer.nn.state import Growing
from sublayer.testing import small


def test_a_growing_tensor_equals_concatenation():
    pieces = [torch.randn(2, n, 3) for n in (4, 1, 1, 7, 2, 1)]
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            grown = Growing.of(pieces[0], 1)
            for piece in pieces[1:]:
                grown = grown.append(piece)
            assert torch.equal(grown.value, torch.cat(pieces, dim=1))
            assert torch.equal(grown.last(3), torch.cat(pieces, dim=1)[:, -3:])


def test_growing_by_one_moves_the_past_only_when_it_doubles():
    with torch.no_grad():
        grown, moves = Growing.of(torch.zeros(1, 1, 1), 1), 0
        for _ in range(1000):
            before = grown.buffer.data_ptr()
            grown = grown.append(torch.zeros(1, 1, 1))
            moves += grown.buffer.data_ptr() != before
    assert moves <= 8


def test_keeping_the_last_few_bounds_the_buffer():
    with torch.no_grad():
        grown = Growing.of(torch.zeros(1, 1, 1), 1)
        for n in range(1, 500):
            grown = grown.append(torch.full((1, 1, 1), float(n)), keep=5)
    assert grown.last(6)[0, :, 0].tolist() == [494, 495, 496, 497, 498, 499]
    assert grown.buffer.shape[1] <= 16


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl-base", "transformer"])
def test_rows_can_be_chosen_and_repeated(paper):
    torch.manual_seed(0)
    model = small(sublayer.config(paper)).build().eval()
    ids = torch.randint(61, (3, 6))
    rows = torch.tensor([2, 0, 0, 1])

    def begin(chosen):
        return model.start(torch.arange(15).view(3, 5)[chosen]) if paper == "transformer" else None

    with torch.no_grad():
        _, state = model(ids, begin([0, 1, 2]))
        _, other = model(ids[rows], begin(rows.tolist()))
        more = torch.randint(61, (4, 2))
        torch.testing.assert_close(model(more, state.select(rows))[0], model(more, other)[0])


def test_a_detached_state_ends_the_graph():
    model = small(sublayer.config("gpt2")).build().eval()
    ids = torch.zeros(1, 3, dtype=torch.long)
    _, state = model(ids)
    assert state.fork().parts[0].k.value.requires_grad
    assert not state.detach().parts[0].k.value.requires_grad


def test_a_segment_memory_keeps_inputs_without_their_graph_and_still_teaches_its_keys():
    torch.manual_seed(0)
    model = small(sublayer.config("transformer-xl-base", layout="s")).build().eval()
    first, second = torch.randint(61, (1, 5)), torch.randint(61, (1, 1))
    _, state = model(first)
    assert not state.parts[0].x.value.requires_grad
    h, _ = model(second, state)
    (slope,) = torch.autograd.grad(h.sin().sum(), model.stack.sublayers[0].part.qkv.weight)
    alone, _ = model(second)
    (without,) = torch.autograd.grad(alone.sin().sum(), model.stack.sublayers[0].part.qkv.weight)
    assert not torch.allclose(slope[32:64], without[32:64])


def test_a_consumed_state_says_what_to_do():
    model = small(sublayer.config("gpt2")).build()
    ids = torch.zeros(1, 3, dtype=torch.long)
    _, state = model(ids)
    model(ids, state)
    with pytest.raises(ValueError, match="consumed by an earlier call; go on from the state that call returned"):
        model(ids, state)
    with pytest.raises(ValueError, match="consumed"):
        state.fork()


def test_segments_must_add_up():
    model = small(sublayer.config("transformer-xl-base")).build()
    with pytest.raises(ValueError, match=r"lengths \(2, 2\) add up to 4, the input has 5 tokens"):
        model(torch.zeros(1, 5, dtype=torch.long), segments=(2, 2))
