"""Memory of a large array goes on to the next once nobody holds it; what is seen of it is PyTorch's."""

import pytest
import torch

from sublayer.measurement.allocations import allocated
from sublayer.native import arrays

SHAPE = arrays.LARGE // 4 // 64, 64


@pytest.fixture(autouse=True)
def none_waiting():
    arrays.release()
    yield
    arrays.release()


def test_memory_goes_on_when_the_last_view_of_an_array_is_gone():
    like = torch.zeros(1)
    one = arrays.empty(*SHAPE, like=like)
    where, view = one.data_ptr(), one[1:].T
    del one
    assert arrays.empty(*SHAPE, like=like).data_ptr() != where
    del view
    two = arrays.empty(*SHAPE, like=like)
    assert two.data_ptr() == where
    assert (two.shape, two.dtype, two.data_ptr() % arrays.LINE) == (SHAPE, torch.float32, 0)


def test_autograd_holds_what_it_saved():
    x = torch.ones(SHAPE, requires_grad=True)
    y = arrays.empty_like(x).fill_(2.0)
    loss = (x * y).sum()
    del y
    arrays.empty_like(x).fill_(3.0)
    loss.backward()
    assert x.grad is not None
    assert float(x.grad.max()) == 2.0


def test_an_array_lies_as_the_one_it_is_like():
    x = torch.empty(2, SHAPE[0], 4, 16).transpose(1, 2)
    assert arrays.empty_like(x).stride() == torch.empty_like(x).stride() == x.stride()


def test_what_waits_is_limited_and_of_sizes_in_use(monkeypatch):
    monkeypatch.setattr(arrays, "MOST", 3 * arrays.LARGE)
    for size in (arrays.LARGE, arrays.LARGE + 64):
        held = [arrays.empty(size // 4, like=torch.zeros(1)) for _ in range(4)]
        del held
        assert arrays._bytes() <= arrays.MOST
        assert len(arrays._waiting[size]) >= 2


def test_memory_that_is_counted_is_pytorch_s(monkeypatch):
    like = torch.zeros(1)
    arrays.empty(*SHAPE, like=like)
    assert allocated(lambda: arrays.empty(*SHAPE, like=like)).peak == arrays.LARGE
    monkeypatch.setenv(arrays.VARIABLE, "0")
    arrays.release()
    arrays.empty(*SHAPE, like=like)
    assert not any(arrays._waiting.values())
